/* See unit.h, which is included before. */
