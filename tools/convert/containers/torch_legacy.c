/* PyTorch's files from before 1.6. See torch.h.
 *
 * Five pickles, then data: a magic number, a version, facts about the machine, the object, and the
 * list of the keys of the storages. Then, in the order of that list, for each key a u64 count and
 * the elements. The element type of a storage is known from the references to it in the object.
 */
#include "base/check.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/mem.h"
#include "convert/containers/torch.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t magic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
                                0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};

int torch_legacy_sniff(struct span bytes)
{
    return bytes.size >= sizeof magic && memcmp(bytes.data, magic, sizeof magic) == 0;
}

static int compare_keys(const void *a, const void *b)
{
    const struct torch_storage *x = a, *y = b;
    size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
    int order = n ? memcmp(x->key.p, y->key.p, n) : 0;
    return order ? order : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

struct torch_storage *torch_legacy_storage(const struct torch_file *f, struct gguf_str key)
{
    const struct torch_storage wanted = {.key = key};
    size_t n = arr_len(f->storages);
    return n ? bsearch(&wanted, f->storages, n, sizeof wanted, compare_keys) : NULL;
}

/* ---- the storages that the object refers to -------------------------------------------------- */

static int torch_legacy_bad(const char *what, mgpt_error *err)
{
    return ckpt_refuse(err, "PyTorch legacy file: %s", what);
}

/* From ("storage", type, key, location, count, None). */
static int torch_legacy_describe(const struct pickle *p, pickle_id persistent,
                                 struct torch_storage *s, mgpt_error *err)
{
    pickle_id id = pickle_item(p, persistent, 0);
    struct pickle_node key = pickle_at(p, pickle_item(p, id, 2));
    if (!pickle_is_text(p, pickle_item(p, id, 0), "storage") || key.kind != PICKLE_TEXT)
        return torch_legacy_bad("a reference that is not to a storage", err);
    if (pickle_at(p, pickle_item(p, id, 5)).kind != PICKLE_NONE)
        return torch_legacy_bad("a view of a storage, which is not supported", err);
    *s = (struct torch_storage){.key = {key.as.text, key.n},
                                .type = torch_type(p, pickle_item(p, id, 1))};
    return MGPT_OK;
}

/* Sorts the list, and leaves one entry for each key; a key with two types is refused. */
static int sort_storages(struct torch_storage *all, mgpt_error *err)
{
    size_t n = 0;
    qsort(all, arr_len(all), sizeof *all, compare_keys);
    for (size_t i = 0; i < arr_len(all); i++) {
        int is_known = n && compare_keys(&all[n - 1], &all[i]) == 0;
        if (is_known && all[n - 1].type != all[i].type)
            return torch_legacy_bad("a storage with two element types", err);
        if (!is_known)
            all[n++] = all[i];
    }
    arr_set_len(all, n);
    return MGPT_OK;
}

/* The list of the storages that the object refers to. A file may refer to one of them any number of times:
 * the list is sorted before it would grow, and grows if half of it is left. */
static int collect(struct torch_file *f, mgpt_error *err)
{
    pickle_id id = f->pickle.persistent;
    int status = MGPT_OK;
    for (; status == MGPT_OK && id; id = pickle_reference_before(&f->pickle, id)) {
        struct torch_storage s;
        size_t cap = arr_cap(f->storages);
        status = torch_legacy_describe(&f->pickle, id, &s, err);
        if (status == MGPT_OK && cap && arr_len(f->storages) == cap)
            status = sort_storages(f->storages, err);
        size_t room = arr_len(f->storages) > cap / 2 ? arr_len(f->storages) + 1 : cap;
        if (status == MGPT_OK && (!arr_reserve(f->storages, room ? room : 1)))
            status = err_memory(err, "the list of storages", sizeof s);
        if (status == MGPT_OK)
            arr_put(f->storages, s);
    }
    return status == MGPT_OK && f->storages ? sort_storages(f->storages, err) : status;
}

/* ---- the data -------------------------------------------------------------------------------- */

static int take_storage(struct torch_file *f, struct cursor *c, struct pickle_node key,
                        mgpt_error *err)
{
    size_t bytes, at = c->pos;
    if (key.kind != PICKLE_TEXT)
        return torch_legacy_bad("a key of a storage that is not text", err);
    struct torch_storage *s = torch_legacy_storage(f, (struct gguf_str){key.as.text, key.n});
    if (!s || s->bytes.data)
        return err_set(err, MGPT_EFILE, at, "PyTorch legacy file: storage %.*s is listed %s",
                       CKPT_CLIP(key.as.text, key.n), s ? "twice" : "but not used");
    uint64_t n = cursor_u64(c);
    if (!ck_bytes(n, state_type_bytes(s->type), &bytes))
        bytes = SIZE_MAX;
    s->bytes = (struct span){cursor_take(c, bytes), bytes};
    if (s->type == STATE_OTHER)
        return torch_legacy_bad("a storage of an element type that is not supported", err);
    if (c->failed)
        return err_set(
            err, MGPT_EFILE, at,
            "PyTorch legacy file: storage %.*s of %llu elements at byte %zu does not fit "
            "into the file's %zu bytes",
            CKPT_CLIP(key.as.text, key.n), (unsigned long long)n, at, c->size);
    return MGPT_OK;
}

static int take_storages(struct torch_file *f, struct span bytes, size_t at,
                         const struct pickle *keys, mgpt_error *err)
{
    struct cursor c = cursor_over(bytes.data, bytes.size);
    c.pos = at;
    int status = MGPT_OK;
    for (struct pickle_iter i = pickle_items(keys, keys->root);
         status == MGPT_OK && pickle_next(&i);)
        status = take_storage(f, &c, pickle_at(keys, i.value), err);
    for (size_t k = 0; status == MGPT_OK && k < arr_len(f->storages); k++)
        if (!f->storages[k].bytes.data)
            status = ckpt_refuse(err, "PyTorch legacy file: storage %.*s is missing",
                                 CKPT_CLIP(f->storages[k].key.p, f->storages[k].key.n));
    return status;
}

/* ---- the pickles ----------------------------------------------------------------------------- */

/* Reads the pickle at *at and moves *at after it. */
static int next(struct pickle *p, struct span bytes, size_t *at, mgpt_error *err)
{
    int status = pickle_read_at(p, bytes, *at, err);
    if (status == MGPT_OK)
        *at = p->size;
    return status;
}

/* Version and facts. */
static int check_head(struct span bytes, size_t *at, mgpt_error *err)
{
    struct pickle p;
    int64_t version = 0;
    int status = next(&p, bytes, at, err);
    if (status < 0)
        return status;
    pickle_int(&p, p.root, &version);
    pickle_free(&p);
    if (version != 1001)
        return torch_legacy_bad("its version is not 1001", err);
    status = next(&p, bytes, at, err);
    if (status < 0)
        return status;
    int64_t little = 1;
    pickle_int(&p, pickle_get(&p, p.root, "little_endian"), &little);
    pickle_free(&p);
    return little ? MGPT_OK : torch_legacy_bad("big-endian, which is not supported", err);
}

int torch_legacy_open(struct torch_file *f, struct span bytes, mgpt_error *err)
{
    size_t at = sizeof magic;
    struct pickle keys = {0};
    *f = (struct torch_file){.container = "PyTorch legacy"};
    int status = check_head(bytes, &at, err);
    if (status == MGPT_OK)
        status = next(&f->pickle, bytes, &at, err);
    if (status == MGPT_OK)
        status = next(&keys, bytes, &at, err);
    if (status == MGPT_OK)
        status = collect(f, err);
    if (status == MGPT_OK)
        status = take_storages(f, bytes, at, &keys, err);
    pickle_free(&keys);
    if (status < 0)
        torch_close(f);
    return status;
}
