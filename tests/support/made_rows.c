/* See made_rows.h. */
#include "support/made_rows.h"

#include "support/unit.h"

FILE *made_begin(void)
{
    FILE *made = tmpfile(); /* Windows has no open_memstream */
    assert_non_null(made);
    return made;
}

/* The row that begins with the n bytes at `begin` and then, if `whole`, ends. NULL: there is none. */
static const char *made_row(const char *rows, const char *begin, size_t n, int whole)
{
    for (; *rows; rows += strcspn(rows, "\n") + 1)
        if (strncmp(rows, begin, n) == 0 && (!whole || rows[n] == '\n'))
            return rows;
    return NULL;
}

/* A row of the file must be one that was made. A word that differs is named. */
static void check_row(char *row, void *user)
{
    const char *rows = user, *colon = strchr(row, ':');
    size_t n = colon ? (size_t)(colon - row) + 1 : strcspn(row, " ");
    if (made_row(rows, row, strlen(row), 1))
        return;
    const char *made = made_row(rows, row, n, 0);
    if (!made)
        fail_msg("%.*s is not made", (int)n, row);
    size_t length = strcspn(made, "\n");
    for (char *word = strtok(row + n, " "); word; word = strtok(NULL, " ")) {
        const char *found = strstr(made, word);
        if (!found || found >= made + length)
            fail_msg("%.*s what it comes to is not what it was: %s", (int)n, made, word);
    }
    fail_msg("%.*s has words that the file lacks", (int)n, made);
}

void made_end(FILE *made, const char *path)
{
    long size = ftell(made);
    assert_true(size > 0);
    char *rows = malloc((size_t)size + 1);
    size_t n = 0;
    assert_non_null(rows);
    rewind(made);
    assert_true(fread(rows, (size_t)size, 1, made) == 1);
    assert_int_equal(fclose(made), 0);
    rows[size] = 0;
    for (const char *at = rows; *at; at++)
        n += *at == '\n';
    if (getenv("MGPT_WRITE")) {
        FILE *to = fopen(unit_path(path), "wb");
        assert_non_null(to);
        assert_true(fwrite(rows, (size_t)size, 1, to) == 1);
        assert_int_equal(fclose(to), 0);
    } else
        assert_int_equal(unit_rows(path, check_row, rows), n);
    free(rows);
}
