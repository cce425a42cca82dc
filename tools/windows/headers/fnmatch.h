/* See posix.h, which is included before. */
