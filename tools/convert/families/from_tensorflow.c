/* Reader: checkpoints of OpenAI's GPT-2 program in TensorFlow, by their index.
 *
 *     model.ckpt.index                    a sorted table (sstable.h): "" is the header, other keys are
 *                                         names of tensors; their values are protobufs
 *     header                              1 number of data files, 2 byte order (0 least first)
 *     tensor                              1 element type, 2 shape, 3 data file, 4 offset, 5 bytes,
 *                                         6 masked CRC-32C, 7 slices of a divided variable
 *     model.ckpt.data-00000-of-00001      the values
 *     hparams.json                        n_vocab, n_ctx, n_embd, n_head, n_layer
 *
 * The program has one architecture, that of transformers' gpt2, whose family takes the tensors:
 * model/h0/attn/c_attn/w is h.0.attn.c_attn.weight, and "g" of a norm is its weight. A matrix is
 * [1, n_in, n_out]. What optimizers keep is ignored.
 */
#include "base/check.h"
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/crc32c.h"
#include "convert/containers/protobuf.h"
#include "convert/containers/sstable.h"
#include "convert/families/hf.h"

#include <stdio.h>
#include <string.h>

enum { TF_NAME = SSTABLE_MAX_KEY + 16 };

struct tensorflow {
    const struct ckpt_input *in;
    struct state state;
    struct ckpt_side data; /* .bytes.data is NULL before the header */
    uint64_t n_taken;      /* bytes of the data that tensors have */
    uint32_t n_ignored;
};

/* ---- names ----------------------------------------------------------------------------------- */

/* Variables of training, also those of each weight: model/wte/Adam. */
static int tf_is_training(const char *name)
{
    static const char *const own[] = {"global_step", "beta1_power", "beta2_power"};
    static const char *const slots[] = {"Adam",    "Adam_1",    "Momentum",
                                        "RMSProp", "RMSProp_1", "Adagrad"};
    const char *slash = strrchr(name, '/');
    for (size_t i = 0; i < HF_COUNT(own); i++)
        if (strcmp(name, own[i]) == 0)
            return 1;
    for (size_t i = 0; slash && i < HF_COUNT(slots); i++)
        if (strcmp(slash + 1, slots[i]) == 0)
            return 1;
    return 0;
}

/* The name in transformers. Returns 0 when the program has no such names. */
static int tf_name(const char *name, char to[TF_NAME])
{
    static const struct {
        const char *tf, *hf;
    } ends[] = {{"w", "weight"}, {"g", "weight"}, {"b", "bias"}};
    static const char front[] = "model/";
    if (strncmp(name, front, strlen(front)) != 0 || strchr(name, '.'))
        return 0;
    name += strlen(front);
    if (strcmp(name, "wte") == 0 || strcmp(name, "wpe") == 0) {
        snprintf(to, TF_NAME, "%s.weight", name);
        return 1;
    }
    int is_layer = name[0] == 'h' && name[1] >= '0' && name[1] <= '9';
    snprintf(to, TF_NAME, "%s%s", is_layer ? "h." : "", name + is_layer);
    for (char *p = to; *p; p++)
        *p = *p == '/' ? '.' : *p;
    char *dot = strrchr(to, '.');
    for (size_t i = 0; dot && i < HF_COUNT(ends); i++)
        if (strcmp(dot + 1, ends[i].tf) == 0) {
            snprintf(dot + 1, strlen("weight") + 1, "%s", ends[i].hf);
            return 1;
        }
    return 0;
}

/* ---- entries of the index -------------------------------------------------------------------- */

/* The element type by TensorFlow's number. */
static enum state_type tf_type(uint64_t number)
{
    static const struct {
        uint64_t number;
        enum state_type type;
    } types[] = {{1, STATE_F32}, {2, STATE_F64}, {14, STATE_BF16}, {19, STATE_F16}};
    for (size_t i = 0; i < HF_COUNT(types); i++)
        if (types[i].number == number)
            return types[i].type;
    return STATE_OTHER;
}

/* Opens the data file: NAME.index has NAME.data-00000-of-00001. */
static int tf_header(struct tensorflow *f, struct span value, mgpt_error *err)
{
    char name[300];
    const char *candidate = name;
    uint64_t n_shards = 0, order = 0;
    const struct proto_wanted fields[] = {{1, PROTO_VARINT, &n_shards, NULL},
                                          {2, PROTO_VARINT, &order, NULL}};
    struct cursor c = cursor_over(value.data, value.size);
    if (proto_take(&c, fields, 2) < 0 || n_shards == 0)
        return ckpt_refuse(err, "the header of the checkpoint is damaged");
    if (n_shards != 1)
        return ckpt_refuse(err, "the checkpoint has %llu data files; 1 is supported",
                           (unsigned long long)n_shards);
    if (order != 0)
        return ckpt_refuse(err,
                           "the checkpoint has its most significant byte first: not supported");
    snprintf(name, sizeof name, "%.250s.data-00000-of-00001", f->in->name);
    int found = f->in->side(f->in->user, 0, &candidate, 1, &f->data, err);
    if (found == 0)
        return ckpt_refuse(err, "side file %.100s: not next to the input; it has the values", name);
    return found < 0 ? found : MGPT_OK;
}

static int tf_shape(struct state_tensor *t, const char *name, struct span bytes, mgpt_error *err)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    struct proto_field field;
    int got;
    while ((got = proto_next(&c, &field)) == 1) {
        uint64_t *to = &t->shape[t->n_dims];
        const struct proto_wanted size = {1, PROTO_VARINT, to, NULL};
        if (field.number != 2 || field.wire != PROTO_BYTES)
            return ckpt_refuse_tensor(err, name, "its shape is unknown");
        if (t->n_dims == STATE_MAX_DIMS)
            return ckpt_refuse_tensor(err, name, "more than 8 dimensions");
        struct cursor dim = cursor_over(field.bytes.data, field.bytes.size);
        *to = 0;
        t->n_dims++;
        if (proto_take(&dim, &size, 1) < 0)
            return ckpt_refuse_tensor(err, name, "its shape is damaged");
    }
    return got < 0 ? ckpt_refuse_tensor(err, name, "its shape is damaged") : MGPT_OK;
}

/* The place of the values, all of them, and their sum. */
static int tf_bytes(struct tensorflow *f, struct state_tensor *t, const char *name,
                    const uint64_t place[3], mgpt_error *err)
{
    const uint64_t offset = place[0], size = place[1];
    uint64_t n = state_type_bytes(t->type);
    struct cursor c = cursor_over(f->data.bytes.data, f->data.bytes.size);
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!ck_mul(n, t->shape[i], &n))
            return ckpt_refuse_tensor(err, name, "its shape is too large");
    if (n != size)
        return ckpt_refuse_tensor(err, name, "%llu bytes, its shape needs %llu",
                                  (unsigned long long)size, (unsigned long long)n);
    cursor_take(&c, offset);
    t->bytes = (struct span){cursor_take(&c, size), (size_t)size};
    if (c.failed)
        return ckpt_refuse_tensor(err, name, "ends after the data file of %zu bytes", c.size);
    f->n_taken += size; /* no overflow: each is at most the file's, and the sum is checked */
    if (f->n_taken > c.size)
        return ckpt_refuse_tensor(err, name, "overlaps another tensor");
    if (!crc32c_matches(t->bytes, (uint32_t)place[2]))
        return ckpt_refuse_tensor(err, name, "its checksum is wrong: the data file is damaged");
    return MGPT_OK;
}

static int tf_parse(struct tensorflow *f, struct state_tensor *t, const char *name,
                    struct span value, mgpt_error *err)
{
    uint64_t type = 0, shard = 0, place[3] = {0, 0, 0};
    struct span shape = {NULL, 0}, slices = {NULL, 0};
    const struct proto_wanted fields[] = {
        {1, PROTO_VARINT, &type, NULL},     {2, PROTO_BYTES, NULL, &shape},
        {3, PROTO_VARINT, &shard, NULL},    {4, PROTO_VARINT, &place[0], NULL},
        {5, PROTO_VARINT, &place[1], NULL}, {6, PROTO_FIXED32, &place[2], NULL},
        {7, PROTO_BYTES, NULL, &slices}};
    struct cursor c = cursor_over(value.data, value.size);
    if (proto_take(&c, fields, HF_COUNT(fields)) < 0)
        return ckpt_refuse_tensor(err, name, "its entry in the index is damaged");
    if (slices.data)
        return ckpt_refuse_tensor(err, name, "a variable in slices is not supported");
    if (shard != 0)
        return ckpt_refuse_tensor(err, name, "in data file %llu of 1", (unsigned long long)shard);
    t->type = tf_type(type);
    if (t->type == STATE_OTHER)
        return ckpt_refuse_tensor(err, name, "TensorFlow's element type %llu is not a float",
                                  (unsigned long long)type);
    int status = tf_shape(t, name, shape, err);
    return status < 0 ? status : tf_bytes(f, t, name, place, err);
}

static int tf_entry(void *user, const char *key, size_t n_key, struct span value, mgpt_error *err)
{
    struct tensorflow *f = user;
    struct state_tensor t = {.n_dims = 0};
    char alias[TF_NAME];
    if (n_key == 0)
        return tf_header(f, value, err);
    if (!f->data.bytes.data)
        return ckpt_refuse(err, "the checkpoint has no header, or an empty data file");
    if (strlen(key) == n_key && tf_is_training(key)) {
        f->n_ignored++;
        return MGPT_OK;
    }
    if (strlen(key) != n_key || !tf_name(key, alias))
        return ckpt_refuse_tensor(err, key,
                                  "not a name of OpenAI's GPT-2, such as model/h0/ln_1/g");
    int status = tf_parse(f, &t, key, value, err);
    if (status < 0)
        return status;
    if (t.n_dims == 3 && t.shape[0] == 1) {
        t.n_dims = 2;
        memmove(t.shape, t.shape + 1, 2 * sizeof *t.shape);
    }
    state_contiguous(&t);
    t.alias = ckpt_text(f->state.c, alias, strlen(alias));
    return t.alias ? state_add(&f->state, key, n_key, t, err) : err_memory(err, "a name", n_key);
}

/* ---- hparams.json ---------------------------------------------------------------------------- */

static int tf_hparam(const json_t *root, const char *key, int64_t most, int64_t *to,
                     mgpt_error *err)
{
    const json_t *v = json_object_get(root, key);
    if (!v)
        return ckpt_refuse(err, "hparams.json: %s: missing", key);
    *to = json_is(v, JSON_INTEGER) ? json_integer_value(v) : 0;
    if (*to < 1 || *to > most)
        return ckpt_refuse(err, "hparams.json: %s: expected a whole number from 1 to %lld", key,
                           (long long)most);
    return MGPT_OK;
}

/* The same facts as config.json; what it does not say is the same in all models of the program. */
static int tf_config(struct checkpoint *c, const json_t *root, struct span *config, mgpt_error *err)
{
    enum { EMBD, HEAD };
    static const struct {
        const char *tf, *hf;
        int64_t most;
    } keys[] = {{"n_embd", "n_embd", 1 << 20},
                {"n_head", "n_head", 1 << 16},
                {"n_layer", "n_layer", CKPT_MAX_LAYERS},
                {"n_ctx", "n_positions", 1 << 30},
                {"n_vocab", "vocab_size", INT32_MAX}};
    int64_t values[HF_COUNT(keys)] = {0};
    char text[400] = "{\"model_type\": \"gpt2\", \"activation_function\": \"gelu_new\", "
                     "\"layer_norm_epsilon\": 1e-05";
    size_t n = strlen(text);
    for (size_t i = 0; i < HF_COUNT(keys); i++) {
        if (tf_hparam(root, keys[i].tf, keys[i].most, &values[i], err) < 0)
            return MGPT_EFILE;
        n += (size_t)snprintf(text + n, sizeof text - n, ", \"%s\": %lld", keys[i].hf,
                              (long long)values[i]);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "}");
    if (values[EMBD] % values[HEAD])
        return ckpt_refuse(err, "hparams.json: n_head %lld does not divide n_embd %lld",
                           (long long)values[HEAD], (long long)values[EMBD]);
    *config = (struct span){(const uint8_t *)ckpt_text(c, text, n), n};
    return config->data ? MGPT_OK : err_memory(err, "the settings", n);
}

static int tf_hparams(struct checkpoint *c, const struct ckpt_input *in, struct span *config,
                      mgpt_error *err)
{
    static const char *const name = "hparams.json";
    struct ckpt_side side;
    int found = in->side(in->user, 0, &name, 1, &side, err);
    if (found == 0)
        return ckpt_refuse(err, "side file hparams.json: not next to the input; it has the model's "
                                "numbers");
    if (found < 0)
        return found;
    json_t *root = hf_json(side.bytes, name, err);
    if (!root)
        return err->status;
    int status = tf_config(c, root, config, err);
    json_decref(root);
    return status;
}

/* ---- the reader ------------------------------------------------------------------------------ */

/* The program begins and ends texts with this token. */
static void tf_find_end(struct checkpoint *c)
{
    static const char end[] = "<|endoftext|>";
    struct ckpt_vocab *v = &c->vocab;
    for (size_t i = 0; v->eos < 0 && i < arr_len(v->tokens); i++)
        if (v->tokens[i].n == strlen(end) && memcmp(v->tokens[i].p, end, strlen(end)) == 0) {
            v->bos = v->eos = (int32_t)i;
            ckpt_note(c, "inferred: bos = eos = %d (%s, as OpenAI's program has it)", v->eos, end);
        }
}

enum ckpt_match tensorflow_sniff(struct span bytes)
{
    return sstable_sniff(bytes) ? MATCH_YES : MATCH_NO;
}

int tensorflow_read(struct checkpoint *c, const struct ckpt_input *in, mgpt_error *err)
{
    struct tensorflow f = {.in = in};
    struct span config;
    int status = tf_hparams(c, in, &config, err);
    if (status < 0)
        return status;
    state_init(&f.state, c);
    status = sstable_each(in->bytes, tf_entry, &f, err);
    if (status == MGPT_OK)
        status = hf_read_state(c, in, config, &f.state, err);
    if (f.n_ignored)
        ckpt_note(c, "ignored: %u variables of the optimizer", f.n_ignored);
    state_free(&f.state);
    c->format = "OpenAI's GPT-2 in TensorFlow";
    if (status == MGPT_OK)
        tf_find_end(c);
    return status;
}
