// An arm of two joints held by computed torque, a thousand times a second, in single precision.
//
// Run generate.py first; the Arduino IDE compiles the .c file that it writes beside this sketch.
// Here the arm is simulated: with a real one, read q and qd from its encoders in place of the
// call of double_pendulum_float32_step, and send tau to its motors.

#include "double_pendulum_float32.h"

static float q[2] = {0.0f, 0.0f}, qd[2] = {0.0f, 0.0f}, tau[2];
static const float goal[2] = {0.5f, -0.8f};
static unsigned long next_period = 0, periods = 0;

void setup() {
  Serial.begin(115200);
  next_period = micros();
}

void loop() {
  if ((long)(micros() - next_period) < 0) return;
  next_period += 1000;

  const unsigned long begin = micros();
  double_pendulum_float32_control(q, qd, goal, tau);
  const unsigned long taken = micros() - begin;

  float state[4];
  double_pendulum_float32_step(q, qd, tau, state);
  for (int k = 0; k < 2; ++k) {
    q[k] = state[k];
    qd[k] = state[2 + k];
  }
  if (++periods % 100 == 0) {
    Serial.print(q[0], 4);
    Serial.print(' ');
    Serial.print(q[1], 4);
    Serial.print("  control takes us: ");
    Serial.println(taken);
  }
}
