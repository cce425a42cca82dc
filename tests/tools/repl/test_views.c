/* Tests of what the looking commands of the repl draw: pictures, colours, cutting. What they print is
 * the business of cli/views.sh. */
#include "common/heat.h"
#include "repl/repl.h"
#include "repl/view.h"
#include "support/unit.h"

#include <math.h>

/* ---- pictures -------------------------------------------------------------------------------- */

static char *drawn(const struct heat *heat, const struct screen *screen)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    heat_print(heat, screen, to);
    fclose(to);
    return text;
}

static struct heat filled(size_t rows, size_t cols, size_t max, enum heat_cell cell)
{
    struct heat heat = {
        .rows = {rows, "r", NULL, NULL, 0}, .cols = {cols, "c", NULL, NULL, 0}, .cell = cell};
    assert_true(heat_open(&heat, max, max));
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j <= i && j < cols; j++)
            heat_put(&heat, i, j, (double)i - 3 * (double)j);
    heat_end(&heat);
    return heat;
}

TEST(small_pictures_have_numbers)
{
    struct heat heat = filled(3, 3, 10, HEAT_LARGEST);
    char *text = drawn(&heat, &(struct screen){SCREEN_PLAIN, 80});
    assert_string_equal(text, "r \\ c                  0       1       2\n"
                              "0                 0.0000       ·       ·\n"
                              "1                 1.0000 -2.0000       ·\n"
                              "2                 2.0000 -1.0000 -4.0000\n"
                              "scale -4.0000  ..::-==++*##%%@ 2.0000\n");
    free(text);
    heat_close(&heat);
}

/* 100 x 100 in cells: each the largest, or the largest in size. Above: every tenth. */
TEST(large_pictures_have_cells)
{
    struct heat heat = filled(100, 100, 10, HEAT_LARGEST);
    assert_true(heat.n_rows == 10 && heat.per_col == 10 && heat.high == 99 && heat.low == -171);
    char *text = drawn(&heat, &(struct screen){SCREEN_PLAIN, 80});
    assert_non_null(strstr(text, "\na cell: largest of 10 x 10; all 100 x 100: -o FILE\n"));
    free(text);
    heat_close(&heat);
    heat = filled(100, 100, 34, HEAT_LARGEST_SIZE);
    assert_true(heat.low == 99 - 3 * 99);
    text = drawn(&heat, &(struct screen){SCREEN_PLAIN, 80});
    assert_non_null(strstr(text, "  0         30        60        90  \n"));
    free(text);
    heat_close(&heat);
}

/* A number that is not finite is shown, also when its cell has others. */
TEST(not_finite_shows)
{
    for (int first = 0; first < 2; first++) {
        struct heat heat = {.rows = {2, "r", NULL, NULL, 0}, .cols = {1, "c", NULL, NULL, 0}};
        assert_true(heat_open(&heat, 1, 1));
        heat_put(&heat, 0, 0, first ? NAN : 5);
        heat_put(&heat, 1, 0, first ? 5 : INFINITY);
        heat_end(&heat);
        char *text = drawn(&heat, &(struct screen){SCREEN_PLAIN, 80});
        assert_non_null(strstr(text, "?"));
        free(text);
        heat_close(&heat);
    }
}

/* Two rows share a line of half blocks; the last of an odd number is alone; nothing is a
 * dot. */
TEST(half_blocks)
{
    struct heat heat = filled(3, 2, 10, HEAT_LARGEST);
    const struct screen screen = {SCREEN_TRUECOLOR, 80};
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    assert_int_equal(heat_lines(&heat, &screen), 2);
    heat_line(&heat, &screen, 0, to);
    fclose(to);
    assert_non_null(strstr(text, "▀"));
    assert_non_null(strstr(text, "▄")); /* key 1 is there for the second row only */
    assert_true(strcmp(text + n - 4, "\033[0m") == 0);
    free(text);
    heat_close(&heat);
}

/* ---- screens --------------------------------------------------------------------------------- */

/* Relative luminance of the background of a value. */
static double luminance(enum screen_mode mode, double value)
{
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    char *text = NULL;
    size_t n;
    int r, g, b, index;
    FILE *to = open_memstream(&text, &n);
    screen_ground(&(struct screen){mode, 80}, to, SCREEN_SIZES, value);
    fclose(to);
    if (mode == SCREEN_256) {
        assert_int_equal(sscanf(text, "\033[48;5;%dm", &index), 1);
        assert_in_range(index, 16, 231);
        index -= 16;
        r = levels[index / 36];
        g = levels[index / 6 % 6];
        b = levels[index % 6];
    } else {
        assert_int_equal(sscanf(text, "\033[48;2;%d;%d;%dm", &r, &g, &b), 3);
    }
    free(text);
    return 0.2126 * pow(r / 255.0, 2.2) + 0.7152 * pow(g / 255.0, 2.2) +
           0.0722 * pow(b / 255.0, 2.2);
}

/* The background of a value as it is written, for 24 bits. */
static void ground(enum screen_scale scale, double value, int rgb[3])
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    screen_ground(&(struct screen){SCREEN_TRUECOLOR, 80}, to, scale, value);
    fclose(to);
    assert_int_equal(sscanf(text, "\033[48;2;%d;%d;%dm", &rgb[0], &rgb[1], &rgb[2]), 3);
    free(text);
}

/* Minus is blue and plus is rust, as in the lab, in notebooks and in patch --html. */
TEST(signs_have_their_colours)
{
    int between[3], minus[3], none[3], plus[3];
    ground(SCREEN_SIGNS, 0.125, between); /* 0xb5dafb and 0x5f9fdb, 1 to 3: 116.5, 173.75, 227 */
    ground(SCREEN_SIGNS, 1.0 / 6, minus);
    ground(SCREEN_SIGNS, 0.5, none);
    ground(SCREEN_SIGNS, 5.0 / 6, plus);
    const int want[3][3] = {{0x5f, 0x9f, 0xdb}, {0x22, 0x24, 0x2b}, {0xdd, 0x86, 0x42}};
    const int mixed[3] = {117, 174, 227};
    assert_memory_equal(between, mixed, sizeof between);
    assert_memory_equal(minus, want[0], sizeof minus);
    assert_memory_equal(none, want[1], sizeof none);
    assert_memory_equal(plus, want[2], sizeof plus);
}

/* A picture with a number below zero has the colours of signs: zero is in the middle. */
TEST(pictures_below_zero_have_signs)
{
    struct heat heat = {.rows = {1, "row", NULL, NULL, 0}, .cols = {3, "column", NULL, NULL, 0}};
    const struct screen screen = {SCREEN_TRUECOLOR, 80};
    char *text = NULL;
    size_t n;
    assert_true(heat_open(&heat, 1, 3));
    heat_put(&heat, 0, 0, -1);
    heat_put(&heat, 0, 1, 0);
    heat_put(&heat, 0, 2, 3);
    heat_end(&heat);
    FILE *to = open_memstream(&text, &n);
    heat_print(&heat, &screen, to);
    fclose(to);
    assert_non_null(strstr(text, "\033[48;2;34;36;43m"));    /* 0 */
    assert_non_null(strstr(text, "\033[48;2;255;210;166m")); /* 3 */
    assert_non_null(strstr(text, "scale -3.0000"));
    free(text);
    heat_close(&heat);
}

/* Larger is lighter, all along: who does not see the hues sees the order. */
TEST(colors_grow_lighter)
{
    for (int mode = SCREEN_256; mode <= SCREEN_TRUECOLOR; mode++) {
        double last = -1;
        for (int i = 0; i <= 64; i++) {
            double now = luminance((enum screen_mode)mode, i / 64.0);
            if (now < last)
                fail_msg("mode %d, value %d/64: %.4f after %.4f", mode, i, now, last);
            last = now;
        }
        assert_true(last > 0.6);
    }
}

/* What is printed as 0 has no sign; other numbers are as they are. */
TEST(numbers_near_0)
{
    double found[] = {view_fixed(-0.0049, 2), view_fixed(0.0051, 2)};
    assert_memory_equal(found, ((double[]){0, 0.0051}), sizeof found);
}

/* Of two equal logits the one with the lower id has the better rank. A logit of minus infinity adds no entropy. */
TEST(ranks_and_entropy)
{
    static const float logits[] = {1, 2, -INFINITY, 2, 1};
    static const size_t ranks[] = {3, 1, 5, 2, 4};
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(repl_rank(logits, 5, i), ranks[i]);
    const mgpt_candidate top = {.token = 1, .logit = 2, .logprob = -log(2 + 2 * exp(-1))};
    double p = exp(top.logprob), q = p * exp(-1);
    assert_true(fabs(repl_entropy(logits, 5, &top) + 2 * p * log(p) + 2 * q * log(q)) < 1e-12);
}

TEST(text_is_cut_by_columns)
{
    static const struct {
        const char *text;
        size_t columns;
        const char *cut;
    } cases[] = {
        {"abc", 3, "abc"},
        {"abcd", 3, "ab~"},
        {"漢字語", 6, "漢字語"},
        {"漢字語", 5, "漢字~"},
        {"漢字語", 4, "漢~"},
        {"éé", 1, "~"},
        {"", 0, ""},
        {"abc", 0, ""},
        {"e\u0301x", 2, "e\u0301x"},
    };
    char text[64];
    for (size_t i = 0; i < COUNT(cases); i++) {
        strcpy(text, cases[i].text);
        screen_cut(text, cases[i].columns);
        assert_string_equal(text, cases[i].cut);
        assert_true(screen_columns(text) <= cases[i].columns);
    }
}

TEST(modes_by_name)
{
    struct screen screen;
    assert_true(screen_look(&screen, "256", 33));
    assert_int_equal(screen.mode, SCREEN_256);
    assert_int_equal(screen.width, 33);
    assert_true(screen_look(&screen, "truecolor", 0));
    assert_int_equal(screen.mode, SCREEN_TRUECOLOR);
    assert_false(screen_look(&screen, "colour", 0));
}
