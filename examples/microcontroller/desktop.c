/* The loop of the sketch on a computer: a second of the arm, and where it is at the end. */

#include <stdio.h>

#include "double_pendulum_float32.h"

int main(void)
{
    float q[2] = {0.0f, 0.0f}, qd[2] = {0.0f, 0.0f}, tau[2], state[4];
    const float goal[2] = {0.5f, -0.8f};
    for (int period = 0; period < 1000; ++period) {
        double_pendulum_float32_control(q, qd, goal, tau);
        double_pendulum_float32_step(q, qd, tau, state);
        for (int k = 0; k < 2; ++k) {
            q[k] = state[k];
            qd[k] = state[2 + k];
        }
    }
    printf("%.6f %.6f\n", (double)q[0], (double)q[1]);
    return 0;
}
