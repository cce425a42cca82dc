/* What a word typed in the repl can be completed to: commands, and what their arguments name. Tokens are
 * completed in quotes and escaped, with no space or comma in them, which would end the word. */
#include "line.h"
#include "mem.h"
#include "repl.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct completion {
    struct repl *repl;
    const char *begin;
    struct line_words *words;
};

typedef void fill_fn(const struct completion *c);

/* Adds a word that begins as what was typed. 0: there are enough. */
static int offer(const struct completion *c, const char *word)
{
    return strncmp(word, c->begin, strlen(c->begin)) != 0 || line_add(c->words, word);
}

static void offer_all(const struct completion *c, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        offer(c, words[i]);
}

static void fill_commands(const struct completion *c)
{
    for (size_t i = 0; i < repl_n_commands; i++)
        if (repl_commands[i].name)
            offer(c, repl_commands[i].name);
}

static void fill_branches(const struct completion *c)
{
    for (size_t i = 0; i < arr_len(c->repl->branches); i++)
        offer(c, c->repl->branches[i].name);
}

static void fill_settings(const struct completion *c)
{
    static const char *const names[] = {"temp", "top-k", "top-p", "min-p", "seed"};
    offer_all(c, names, sizeof names / sizeof *names);
}

static void fill_parts(const struct completion *c)
{
    const mgpt_info *info = &c->repl->engine.info;
    char word[32];
    for (int32_t layer = 0; layer < info->n_layer; layer++) {
        snprintf(word, sizeof word, "mlp.%d", (int)layer);
        offer(c, word);
        for (int32_t head = 0; head < info->n_head; head++) {
            snprintf(word, sizeof word, "%d.%d", (int)layer, (int)head);
            if (!offer(c, word))
                return;
        }
    }
}

static void fill_kinds(const struct completion *c)
{
    static const char *const kinds[] = {"zero", "mean", "off"};
    offer_all(c, kinds, sizeof kinds / sizeof *kinds);
}

static void fill_hooks(const struct completion *c)
{
    const struct hook *hooks = repl_hooks(c->repl);
    for (size_t i = 0; i < arr_len(hooks); i++)
        if (!offer(c, hooks[i].name))
            return;
}

/* ---- tokens ---- */

/* One quoted token, n bytes: as a word. What was typed may lack the quote. */
static int offer_token(const struct completion *c, const char *quoted, size_t n)
{
    char word[128];
    size_t length = 0;
    for (size_t i = 0; i < n && length + 5 < sizeof word; i++) {
        int breaks = quoted[i] == ' ' || quoted[i] == ',';
        int k = breaks ? snprintf(word + length, 5, "\\x%02X", (unsigned char)quoted[i]) : 1;
        if (!breaks)
            word[length] = quoted[i];
        length += (size_t)k;
    }
    word[length] = 0;
    const char *typed = word + (*c->begin != '"');
    int fits = strncmp(typed, c->begin, strlen(c->begin)) == 0 && n < sizeof word / 4;
    return !fits || line_add(c->words, word);
}

static void fill_tokens(const struct completion *c)
{
    char *text = NULL;
    size_t n = 0, n_bytes;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        return;
    for (int32_t i = 0; i < c->repl->engine.info.n_tokens; i++) {
        const char *bytes = mgpt_piece(c->repl->engine.model, i, &n_bytes);
        if (n_bytes > 0) {
            text_print_quoted(to, bytes, n_bytes);
            putc('\n', to); /* escaped in the token itself */
        }
    }
    if (fclose(to) == 0)
        for (const char *p = text, *end; p < text + n; p = end + 1) {
            end = memchr(p, '\n', (size_t)(text + n - p));
            if (!end || !offer_token(c, p, (size_t)(end - p)))
                break;
        }
    free(text);
}

/* ---- which of them ---- */

/* For an argument of a command, counted from 1; 0: for each of them. */
static const struct {
    const char *command;
    size_t argument;
    fill_fn *fill;
} rows[] = {
    {"/p", 1, fill_tokens},    {"/ids", 0, fill_tokens},    {"/edit", 2, fill_tokens},
    {"/sw", 1, fill_branches}, {"/diff", 1, fill_branches}, {"/set", 1, fill_settings},
    {"/ab", 1, fill_parts},    {"/ab", 2, fill_kinds},      {"/scale", 1, fill_parts},
    {"/trace", 2, fill_hooks}, {"/w", 1, fill_hooks},       {"/help", 1, fill_commands},
};

/* Words in front of the one to complete. */
static size_t count_words(const char *line)
{
    size_t n = 0;
    for (line += strspn(line, " \t"); *line; n++) {
        line += strcspn(line, " \t");
        line += strspn(line, " \t");
    }
    return n;
}

void repl_complete(const char *before, const char *begin, struct line_words *words, void *user)
{
    const struct completion c = {user, begin, words};
    size_t n = count_words(before), length = strcspn(before, " \t");
    if (n == 0 && *begin == '/')
        fill_commands(&c);
    for (size_t i = 0; n > 0 && i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].command) == length && strncmp(rows[i].command, before, length) == 0 &&
            (rows[i].argument == n || rows[i].argument == 0))
            rows[i].fill(&c);
}
