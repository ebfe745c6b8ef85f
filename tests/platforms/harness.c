/* Calls one function of nlink's object code on memory from a file, and writes the memory back.

   The file: the number of blocks, their sizes, their bytes; the number of pointers to set, each as
   (block, byte, block it points to, byte); five arguments, each as (block or -1, byte or number).
   All numbers are 64-bit integers. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define UNARY(name) double nlink_library_##name(double x) { return name(x); }
#define BINARY(name) double nlink_library_##name(double x, double y) { return name(x, y); }
UNARY(sin) UNARY(cos) UNARY(exp) UNARY(log) UNARY(tanh) BINARY(atan2) BINARY(pow)

extern void ENTRY(int64_t, int64_t, int64_t, int64_t, int64_t);

static int64_t number(FILE *file) {
    int64_t x;
    if (fread(&x, sizeof x, 1, file) != 1) exit(2);
    return x;
}

int main(int count, char **names) {
    FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
    if (count != 3 || !in || !out) return 2;
    int64_t blocks = number(in), *size = malloc(blocks * sizeof *size);
    char **block = malloc(blocks * sizeof *block);
    for (int64_t i = 0; i < blocks; i++) size[i] = number(in);
    for (int64_t i = 0; i < blocks; i++) {
        block[i] = aligned_alloc(64, (size[i] + 127) / 64 * 64);
        if (fread(block[i], 1, size[i], in) != (size_t)size[i]) return 2;
    }
    for (int64_t left = number(in); left > 0; left--) {
        int64_t from = number(in), at = number(in), to = number(in), byte = number(in);
        *(char **)(block[from] + at) = block[to] + byte;
    }
    int64_t argument[5];
    for (int i = 0; i < 5; i++) {
        int64_t of = number(in), value = number(in);
        argument[i] = of < 0 ? value : (int64_t)(block[of] + value);
    }
    ENTRY(argument[0], argument[1], argument[2], argument[3], argument[4]);
    for (int64_t i = 0; i < blocks; i++) fwrite(block[i], 1, size[i], out);
    return fclose(out) != 0;
}
