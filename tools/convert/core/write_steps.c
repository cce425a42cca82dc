/* The keys of a tokenizer's steps: lists of strings, tables of characters, lists of ids. */
#include "base/error.h"
#include "base/mem.h"
#include "convert/core/write.h"

#include <stdlib.h>
#include <string.h>

#define KEY(name) "mgpt.tokenizer." name

static void put_list(struct gguf_writer *w, const char *key, const struct gguf_str *list)
{
    gguf_put_strings(w, key, list, arr_len(list));
}

static void put_ids(struct gguf_writer *w, const char *key, const int32_t *ids)
{
    if (ids)
        gguf_put_i32s(w, key, ids, arr_len(ids));
}

static void put_map(struct gguf_writer *w, const struct ckpt_map *map)
{
    char key[64];
    size_t n = arr_len(map->words);
    uint8_t *bytes = mem_new(n, 4);
    if (!bytes) {
        err_memory(&w->failed, "a table of characters", 4 * n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < 4; b++)
            bytes[4 * i + b] = (uint8_t)(map->words[i] >> (8 * b));
    text_format(key, sizeof key, KEY("map.%s"), map->name);
    const struct gguf_kv kv = {.key = {key, strlen(key)},
                               .type = GGUF_ARRAY,
                               .element = GGUF_U32,
                               .n = n,
                               .value = bytes,
                               .value_bytes = 4 * n};
    gguf_put_kv(w, &kv);
    free(bytes);
}

void write_put_steps(struct gguf_writer *w, const struct ckpt_vocab *v)
{
    if (!v->has_steps)
        return;
    put_list(w, KEY("normalizers"), v->normalizers);
    put_list(w, KEY("pre_tokenizers"), v->pre_tokenizers);
    put_list(w, KEY("decoders"), v->decoders);
    gguf_put_bool(w, KEY("drops_space"), v->drops_space);
    for (size_t i = 0; i < arr_len(v->maps); i++)
        put_map(w, &v->maps[i]);
    put_ids(w, KEY("merge_ids"), v->merge_ids);
    put_ids(w, KEY("added"), v->added);
    put_ids(w, KEY("single_word"), v->single_word);
    put_ids(w, KEY("normalized"), v->normalized);
    if (v->prefix.n)
        gguf_put_string(w, KEY("prefix"), v->prefix.p, v->prefix.n);
    if (v->suffix.n)
        gguf_put_string(w, KEY("suffix"), v->suffix.p, v->suffix.n);
    if (v->word_chars >= 0)
        gguf_put_u32(w, KEY("word_chars"), (uint32_t)v->word_chars);
    if (v->byte_fallback)
        gguf_put_bool(w, KEY("byte_fallback"), 1);
    if (v->fuse_unknown)
        gguf_put_bool(w, KEY("fuse_unknown"), 1);
}
