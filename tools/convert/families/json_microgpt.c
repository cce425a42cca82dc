/* Reader: microgpt's weights as JSON, and other programs' models in it: llm-viz's file of a minGPT,
 * and the like.
 *
 * The values of the text (jval.h, tree_model.c) stay until the model is written. It is limited to
 * 512 MiB because they take a multiple of it.
 */
#include "base/error.h"
#include "base/mem.h"
#include "convert/families/torch_model.h"
#include "convert/families/tree.h"

#include <string.h>

#define MAX_BYTES ((size_t)512 << 20)

/* ---- the text -------------------------------------------------------------------------------- */

static struct span without_bom(struct span s)
{
    if (s.size >= 3 && memcmp(s.data, "\xEF\xBB\xBF", 3) == 0)
        return (struct span){s.data + 3, s.size - 3};
    return s;
}

static int stands_at(struct span s, size_t at, const char *word)
{
    size_t n = strlen(word);
    return at <= s.size && n <= s.size - at && memcmp(s.data + at, word, n) == 0;
}

/* Python writes these for numbers that are not finite; JSON has no such thing. */
static int is_not_finite(struct span s, size_t at)
{
    return stands_at(s, at, "NaN") || stands_at(s, at, "Infinity");
}

/* `base`: where s begins in the file. */
static int syntax_error(struct span s, size_t base, const struct jval_error *e, mgpt_error *err)
{
    size_t at = e->offset;
    if (jval_no_memory(e, s.size, err))
        return MGPT_EMEM;
    if (is_not_finite(s, at))
        return err_set(err, MGPT_EFILE, base + at,
                       "line %d column %d: NaN or Infinity is not JSON (Python writes it); the "
                       "weights are not finite",
                       e->line, e->column);
    return err_set(err, MGPT_EFILE, base + at, "JSON: line %d column %d: %s", e->line, e->column,
                   e->text);
}

enum ckpt_match microgpt_json_sniff(struct span bytes)
{
    struct span s = without_bom(bytes);
    size_t i = 0;
    while (i < s.size && (s.data[i] == ' ' || (s.data[i] >= 9 && s.data[i] <= 13)))
        i++;
    return i < s.size && (s.data[i] == '{' || s.data[i] == '[') ? MATCH_YES : MATCH_NO;
}

/* ---- other programs -------------------------------------------------------------------------- */

static int is_other(const struct mg_parts *m)
{
    for (size_t i = 0; i < arr_len(m->state.tensors); i++)
        if (strstr(m->state.tensors[i].name, "c_attn"))
            return 1;
    return 0;
}

static void map_other(struct mg_parts *m)
{
    m->first_wins = 1;
    ckpt_must(m->c, state_seal(&m->state, m->c->err));
    int found = torch_map_state(&m->state, m, "JSON", m->c->err);
    ckpt_must(m->c, found);
    if (!found)
        ckpt_stop_tensor(m->c, m->state.tensors[0].name, "JSON of a model that mgpt does not know");
}

/* ---- the reader ------------------------------------------------------------------------------ */

static void close_json(void *root)
{
    jval_free(root);
}

int microgpt_json_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    static const char *const formats[] = {"microgpt JSON, flat", "microgpt JSON, wrapped",
                                          "microgpt JSON, parameter list"};
    struct span text = without_bom(in->bytes);
    struct jval_error e;
    struct tree_file file;
    uint64_t left;
    if (text.size > MAX_BYTES)
        return ckpt_refuse(err, "JSON of %zu bytes, the limit is %zu", text.size, MAX_BYTES);
    const struct jval *root = jval_read(text.data, text.size, JVAL_ALLOW_NUL, NULL, &e);
    if (!root)
        return syntax_error(text, in->bytes.size - text.size, &e, err);
    ckpt_own(c, (void *)(uintptr_t)root, close_json);
    struct mg_parts *m = mg_parts_new(c, in);
    tree_read(m, tree_of_json(&file, &left, root, text.size), formats);
    if (is_other(m)) {
        map_other(m);
    } else {
        ckpt_must(c, ckpt_check_options("microgpt JSON", MICROGPT_OPTIONS, in->options, c->err));
        mg_parts_build(m);
    }
    return MGPT_OK;
}
