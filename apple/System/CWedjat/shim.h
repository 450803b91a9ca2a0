// The installed header, by the flags of pkg-config.
#if __has_include(<wedjat.h>)
#include <wedjat.h>
#else
#error "wedjat is not installed: run scripts/install-c (Linux) or apple/xcframework (Apple platforms); see docs/swift.md"
#endif
