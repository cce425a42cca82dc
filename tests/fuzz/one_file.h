/* Fuzz targets: one file in memory. Any name reads it, and what is written under any name takes its
 * place, so that no file of the disk is touched. file_open and outfile_* are those of one_file.c
 * (the linker's --wrap). */
#ifndef TESTS_ONE_FILE_H
#define TESTS_ONE_FILE_H

#include <stddef.h>
#include <stdint.h>

void one_file_put(const uint8_t *data, size_t size);

/* Names for which the rule returns 1 are read from the disk. */
typedef int one_file_rule(const char *path);
void one_file_except(one_file_rule *rule);

#endif
