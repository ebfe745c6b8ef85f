// What a Cortex-M4 begins with: its vectors, and the floating-point unit switched on. With it
// desktop.c runs on a bare microcontroller, or in qemu; newlib prints through the debugger
// (semihosting).
//
//   arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -Os
//     --specs=rdimon.specs -T cortex_m4.ld cortex_m4.c desktop.c double_pendulum_float32.c -lm
//     -o arm.elf
//   qemu-system-arm -M mps2-an386 -nographic -semihosting-config enable=on,target=native
//     -kernel arm.elf

extern void _start(void);
extern char stack_top[];

static void reset(void) {
  *(volatile unsigned *)0xE000ED88 |= 0xFu << 20;  // CPACR: full access to the FPU
  __asm volatile("dsb\n isb");
  _start();
}

static void stop(void) {
  for (;;) {
  }
}

__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {
    (void (*)(void))stack_top, reset, stop, stop, stop, stop, stop};
