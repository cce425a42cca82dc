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
_Noreturn static void syntax_error(struct checkpoint *c, struct span s, size_t base,
                                   const struct jval_error *e)
{
    size_t at = e->offset;
    if (jval_no_memory(e, s.size, c->err))
        ckpt_leave(c, MGPT_EMEM);
    if (is_not_finite(s, at))
        ckpt_stop_at(c, base + at,
                     "line %d column %d: NaN or Infinity is not JSON (Python writes it); the "
                     "weights are not finite",
                     e->line, e->column);
    ckpt_stop_at(c, base + at, "JSON: line %d column %d: %s", e->line, e->column, e->text);
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
    state_seal(&m->state);
    if (!torch_map_state(&m->state, m, "JSON"))
        ckpt_stop_tensor(m->c, m->state.tensors[0].name, "JSON of a model that mgpt does not know");
}

/* ---- the reader ------------------------------------------------------------------------------ */

void microgpt_json_read(struct checkpoint *c, const struct ckpt_input *in)
{
    static const char *const formats[] = {"microgpt JSON, flat", "microgpt JSON, wrapped",
                                          "microgpt JSON, parameter list"};
    struct span text = without_bom(in->bytes);
    struct jval_error e;
    struct tree_file file;
    uint64_t left;
    if (text.size > MAX_BYTES)
        ckpt_stop(c, "JSON of %zu bytes, the limit is %zu", text.size, MAX_BYTES);
    const struct jval *root = jval_read(text.data, text.size, JVAL_ALLOW_NUL, NULL, &e);
    if (!root)
        syntax_error(c, text, in->bytes.size - text.size, &e);
    ckpt_own_json(c, root);
    struct mg_parts *m = mg_parts_new(c, in);
    tree_read(m, tree_of_json(&file, &left, root, text.size), formats);
    if (is_other(m)) {
        map_other(m);
    } else {
        ckpt_check_options(c, in, "microgpt JSON", MICROGPT_OPTIONS);
        mg_parts_build(m);
    }
}
