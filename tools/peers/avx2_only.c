// Hides AVX-512 and AMX from a process that has this library in LD_PRELOAD:
//
//     cc -shared -fPIC -O1 -o avx2_only.so avx2_only.c
//
// CPUID is made to fault, and what faulted is answered here, without the bits of those instructions.
// Linux on x86-64, on processors whose /proc/cpuinfo lists cpuid_fault. Source: arch_prctl(2); Intel
// SDM, volume 2, CPUID.
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012 };

static long allow_cpuid(long allowed) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed); }

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)registers[REG_RIP];
    if (at[0] != 0x0f || at[1] != 0xa2) {
        signal(SIGSEGV, SIG_DFL);
        return;
    }
    uint32_t leaf = registers[REG_RAX], sub = registers[REG_RCX], a, b, c, d;
    allow_cpuid(1);
    __cpuid_count(leaf, sub, a, b, c, d);
    allow_cpuid(0);
    if (leaf == 7 && sub == 0) {
        // F, DQ, IFMA, PF, ER, CD, BW, VL
        b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 0x7u << 26 | 1u << 30 | 1u << 31);
        // VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
        c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
        // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8
        d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25);
    } else if (leaf == 7 && sub == 1) {
        a &= ~(1u << 5 | 1u << 21); // AVX512-BF16, AMX-FP16
    }
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void hide(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSEGV, &action, NULL) || allow_cpuid(0)) {
        static const char said[] = "this system cannot hide instructions\n";
        (void)!write(2, said, sizeof said - 1);
        _exit(1);
    }
}
