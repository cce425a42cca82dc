/* Fuzz target: a session file of the names model. As it is, and with the hashes made good, so that
 * what they guard is reached. A session that was accepted runs. */
#include "base/file.h"
#include "base/xxh64.h"
#include "fuzz/fuzz.h"
#include "mgpt.h"

#include <unistd.h>

enum { HEAD = 64, AT_MODEL = 16, N_MODEL = 16 };

static char path[40]; /* of a file without a name */
static FILE *disk;
static uint8_t model_part[N_MODEL]; /* of a head: bytes and hash of the model's file */

static void put_on_disk(const uint8_t *data, size_t size)
{
    MUST(ftruncate(fileno(disk), 0) == 0);
    MUST(pwrite(fileno(disk), data, size, 0) == (ssize_t)size);
}

static mgpt_model *open_names(void)
{
    char names[1024];
    const char *root = getenv("MGPT_SOURCE_ROOT");
    snprintf(names, sizeof names, "%s/weights/names.gguf", root ? root : ".");
    mgpt_model *model = mgpt_open(names, NULL, NULL);
    MUST(model && (disk = tmpfile()));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(disk));
    struct file file;
    MUST(file_open(&file, names, NULL) == MGPT_OK);
    uint64_t facts[2] = {file.size, xxh64(file.data, file.size)};
    memcpy(model_part, facts, sizeof facts);
    file_close(&file);
    return model;
}

static void use(mgpt_session *session)
{
    size_t n = mgpt_pos(session);
    MUST(n == mgpt_n_ctx(session) || mgpt_step(session, 3, NULL));
    MUST(mgpt_rewind(session, n / 2, NULL) == MGPT_OK && mgpt_step(session, 5, NULL));
    fuzz_saw_number(n);
    fuzz_saw_floats(mgpt_logits(session), 27);
}

static void try_file(mgpt_session *session, const uint8_t *data, size_t size)
{
    mgpt_error err = {0};
    put_on_disk(data, size);
    if (mgpt_load_session(session, path, &err) == MGPT_OK)
        use(session);
    else
        MUST(err.status < 0 && err.text[0] && !strchr(err.text, '\n'));
    fuzz_saw_number((uint64_t)err.status);
    fuzz_saw_number(err.offset);
}

static void seal(uint8_t *data, size_t size)
{
    uint64_t n_bytes = size, hash;
    memcpy(data + AT_MODEL, model_part, N_MODEL);
    memcpy(data + HEAD - 16, &n_bytes, sizeof n_bytes);
    hash = xxh64(data, HEAD - 8);
    memcpy(data + HEAD - 8, &hash, sizeof hash);
    hash = xxh64(data, size - 8);
    memcpy(data + size - 8, &hash, sizeof hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static mgpt_model *names;
    if (!names)
        names = open_names();
    mgpt_session *session = mgpt_session_new(names, NULL, NULL);
    MUST(session && mgpt_step(session, 1, NULL));
    try_file(session, data, size);
    if (size >= HEAD + 8) {
        uint8_t *copy = malloc(size);
        MUST(copy);
        memcpy(copy, data, size);
        seal(copy, size);
        try_file(session, copy, size);
        free(copy);
    }
    mgpt_session_free(session);
    return 0;
}
