/* Compiled into every program of the sanitizer build. Memory that is too much gives NULL, as without the sanitizer; and what the OpenMP
 * runtime keeps for its threads is not the library's leak. */
const char *__asan_default_options(void);
const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void);

const char *__asan_default_options(void) { return "allocator_may_return_null=1:detect_stack_use_after_return=1"; }
const char *__lsan_default_options(void) { return "print_suppressions=0"; }
const char *__lsan_default_suppressions(void) { return "leak:libomp.so\nleak:libgomp.so\n"; }
