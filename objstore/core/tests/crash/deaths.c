/* crash_test, stepping_test and fuzz_test as one program, which is the one by whose name it is called: each has the
 * whole core inside (world.h), and to compile that three times takes longer than most tests do. */
#define _GNU_SOURCE
#include "tests/crash/crash_test.c"
#include "tests/crash/fuzz_test.c"
#include "tests/crash/stepping_test.c"

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    return !strcmp(name, "fuzz_test")       ? main_of_fuzz_test(argc, argv)
           : !strcmp(name, "stepping_test") ? main_of_stepping_test(argc, argv)
                                            : main_of_crash_test(argc, argv);
}
