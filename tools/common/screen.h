/* What the output can show: colours and width.
 *
 * Colour is for a terminal that has it (COLORTERM, TERM), never for files and pipes, TERM=dumb or
 * NO_COLOR; --screen overrides all of that. Colours show numbers from 0 to 1. Of sizes 0 is
 * dark violet, 1 is yellow, light growing evenly in between, so that the order survives colour
 * blindness and black-and-white printing. Of signs 0 is blue, 0.5 dark, 1 rust (colours.h). */
#ifndef MGPT_SCREEN_H
#define MGPT_SCREEN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Most lines that a picture or a table takes: the one limit. */
enum { SCREEN_LINES = 48 };

enum screen_mode { SCREEN_PLAIN, SCREEN_256, SCREEN_TRUECOLOR };

struct screen {
    enum screen_mode mode;
    size_t width; /* in columns */
};

/* Finds out what stdout can show. name: "truecolor", "256", "plain" or NULL to look; width: 0 to
 * look. Returns 0 for an unknown name. */
int screen_look(struct screen *screen, const char *name, int32_t width);

/* A character of the ramp from ' ' (0) to '@' (1). */
char screen_ramp(double value);

enum screen_scale { SCREEN_SIZES, SCREEN_SIGNS };

/* Prints one character cell that shows two numbers, one above the other. NaN leaves its half empty. */
void screen_halves(const struct screen *screen, FILE *to, enum screen_scale scale, double upper,
                   double lower);

/* Sets the background to the colour of a number, and letters that can be read on it. Nothing when
 * plain. */
void screen_ground(const struct screen *screen, FILE *to, enum screen_scale scale, double value);

/* Back to the terminal's own colours. Nothing when plain. */
void screen_reset(const struct screen *screen, FILE *to);

/* Columns that a text of UTF-8 takes; control characters take none. */
size_t screen_columns(const char *text);

/* Cuts a text in place to `columns`; what was cut off leaves '~'. */
void screen_cut(char *text, size_t columns);

#endif
