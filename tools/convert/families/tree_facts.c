/* Facts and vocabularies in a tree: every dict next to the weights is searched. See tree.h. */
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "convert/families/microgpt_impl.h"
#include "convert/families/tree.h"

#include <string.h>

/* ---- vocabulary ------------------------------------------------------------------------------ */

_Noreturn static void bad_entry(struct mg_parts *m, const char *key, const char *what,
                                struct tree found)
{
    ckpt_stop(m->c, "%.*s: expected %s, found %s", CKPT_CLIP(key, strlen(key)), what,
              found.what ? found.what : "none");
}

static void entries_of_list(struct mg_parts *m, const char *key, struct tree list)
{
    for (struct tree_iter i = tree_items(list); tree_next(&i);) {
        if (i.value.kind != TREE_TEXT)
            bad_entry(m, key, "a list of characters", i.value);
        arr_put(m->entries, i.value.text);
    }
}

static void entries_of_text(struct mg_parts *m, const char *key, struct tree text)
{
    struct gguf_str all = text.text;
    for (size_t i = 0; i < all.n;) {
        uint32_t code;
        struct gguf_str s = {all.p + i, 0};
        s.n = utf8_next(s.p, all.n - i, &code);
        if (code == UTF8_BAD)
            bad_entry(m, key, "characters in UTF-8", text);
        arr_put(m->entries, s);
        i += s.n;
    }
}

/* {"a": 0, ...}, {"0": "a", ...} or {0: "a", ...}: the text and the id of a member, or the run ends. */
static struct gguf_str entry_of(struct mg_parts *m, const char *key, const struct tree_iter *i,
                                int64_t *id)
{
    int by_id = i->value.kind == TREE_TEXT;
    struct gguf_str text = by_id ? i->value.text : i->key;
    *id = by_id ? i->id : i->value.whole;
    if (!text.p || (!by_id && !i->value.is_whole))
        bad_entry(m, key, "characters and ids", i->value);
    return text;
}

/* The ids must be 0 to n - 1, each once. A dict of something else takes no memory. */
static void entries_of_dict(struct mg_parts *m, const char *key, struct tree dict, size_t n)
{
    int64_t id;
    for (struct tree_iter i = tree_items(dict); tree_next(&i);)
        entry_of(m, key, &i, &id);
    for (size_t i = 0; i < n; i++)
        arr_put(m->entries, ((struct gguf_str){NULL, 0}));
    for (struct tree_iter i = tree_items(dict); tree_next(&i);) {
        struct gguf_str text = entry_of(m, key, &i, &id);
        if (id < 0 || (uint64_t)id >= n || m->entries[id].p)
            ckpt_stop(m->c, "%.*s: '%.*s': its id is not one of 0 to %zu or occurs twice",
                      CKPT_CLIP(key, strlen(key)), CKPT_CLIP(text.p, text.n), n - 1);
        m->entries[id] = text;
    }
}

void tree_vocabulary(struct mg_parts *m, const char *key, struct tree v)
{
    size_t n = v.kind == TREE_TEXT ? v.text.n : v.n;
    if (m->entries)
        return;
    if (v.kind != TREE_TEXT && v.kind != TREE_LIST && v.kind != TREE_DICT)
        bad_entry(m, key, "the characters as a list, a string or an object", v);
    ckpt_pushed(m->c, arr_reserve(m->entries, n + 1), n * sizeof *m->entries);
    if (v.kind == TREE_TEXT)
        entries_of_text(m, key, v);
    else if (v.kind == TREE_LIST)
        entries_of_list(m, key, v);
    else
        entries_of_dict(m, key, v, n);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static int take_fact(struct mg_parts *m, const char *key, struct tree v, int note, int nesting);

int tree_names_matrices(struct tree dict)
{
    char key[TREE_MAX_NAME];
    uint32_t layer;
    if (dict.kind != TREE_DICT)
        return 0;
    for (struct tree_iter i = tree_items(dict); tree_next(&i);) {
        tree_key(&i, key);
        if (tree_is_container(i.value) && mg_recognise(key, &layer) == MG_WTE)
            return 1;
    }
    return 0;
}

void tree_ignore(struct mg_parts *m, const char *key, struct tree v)
{
    ckpt_note(m->c, "ignored: %.*s (%s)", CKPT_CLIP(key, strlen(key)), v.what);
}

/* {"uchars": [...], "bos": 2}, and not {"a": 0, "b": 1} or {"0": "a"}, which are the vocabulary. */
static int holds_facts(struct tree dict)
{
    char key[TREE_MAX_NAME];
    int has_fact = 0, only_ids = 1;
    for (struct tree_iter i = tree_items(dict); tree_next(&i);) {
        tree_key(&i, key);
        has_fact |= mg_kind_of(key) != MG_OTHER;
        only_ids &= i.value.is_whole;
    }
    return has_fact && !only_ids;
}

static void facts_of(struct mg_parts *m, struct tree dict, struct tree but, int note, int nesting)
{
    char key[TREE_MAX_NAME];
    if (nesting > TREE_MAX_NESTING)
        ckpt_stop(m->c, "metadata: more than %d levels of nesting", TREE_MAX_NESTING);
    for (struct tree_iter i = tree_items(dict); tree_next(&i);) {
        if (tree_same(i.value, but))
            continue;
        tree_key(&i, key);
        if (!take_fact(m, key, i.value, note, nesting) && note)
            tree_ignore(m, key, i.value);
    }
}

static int take_scalar(struct mg_parts *m, const char *key, struct tree v, enum mg_kind kind)
{
    struct mg_value value = {.kind = MG_NONE};
    if (v.kind == TREE_NUMBER || v.kind == TREE_FLAG) {
        value.kind = v.kind == TREE_FLAG ? MG_FLAG : MG_NUMBER;
        value.number = v.number;
    } else if (v.kind == TREE_TEXT && kind != MG_OTHER && kind != MG_VOCABULARY) {
        value = (struct mg_value){.kind = MG_TEXT, .text = ckpt_copy(m->c, v.text.p, v.text.n)};
    }
    return mg_take(m, key, value);
}

/* What is another part of a program's state is not looked into. */
static int take_fact(struct mg_parts *m, const char *key, struct tree v, int note, int nesting)
{
    enum mg_kind kind = mg_kind_of(key);
    enum tree_kind is = v.kind;
    const struct tree none = {0};
    if (take_scalar(m, key, v, kind))
        return 1;
    int is_vocabulary = kind == MG_VOCABULARY && is != TREE_NUMBER && is != TREE_NONE;
    if (is_vocabulary && !(is == TREE_DICT && holds_facts(v)))
        tree_vocabulary(m, key, v);
    else if (is == TREE_DICT && kind != MG_OPTIMIZER && (is_vocabulary || !tree_names_matrices(v)))
        facts_of(m, v, none, note, nesting + 1);
    else
        return 0;
    return 1;
}

int tree_take(struct mg_parts *m, const char *key, struct tree v)
{
    return take_fact(m, key, v, 1, 0);
}

void tree_facts(struct mg_parts *m, struct tree dict, struct tree but, int note)
{
    facts_of(m, dict, but, note, 0);
}
