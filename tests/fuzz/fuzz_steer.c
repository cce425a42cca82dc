/* Fuzz target: a file of steering vectors for a model of 3 layers and width 4. The input is the
 * text of --steer up to the end of a line, and then the file (one_file.h). */
#include "common/cli.h"
#include "engine/steer.h"
#include "fuzz/fuzz.h"
#include "fuzz/one_file.h"
#include "fuzz/quiet.h"

enum { LAYERS = 3, WIDTH = 4, SPEC_MOST = 200 };

/* Rows that were read are added where the file has them, and nowhere else. */
static void use_rows(struct steer *s)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        float rows[2 * WIDTH] = {0};
        const mgpt_value value = {.point = MGPT_RESID_POST,
                                  .layer = layer,
                                  .rows = 2,
                                  .cols = WIDTH,
                                  .stride = WIDTH,
                                  .data = rows};
        MUST(steer_add(&value, s) == 0);
        fuzz_saw_floats(rows, WIDTH);
        MUST(memcmp(rows, rows + WIDTH, WIDTH * sizeof *rows) == 0);
        for (int i = 0; i < WIDTH && !s->has[layer]; i++)
            MUST(rows[i] == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct steer s = {.n_layer = LAYERS, .n_embd = WIDTH};
    char spec[SPEC_MOST + 1];
    const uint8_t *stop = size ? memchr(data, '\n', size) : NULL;
    size_t n = stop ? (size_t)(stop - data) : size, n_spec = n < SPEC_MOST ? n : SPEC_MOST;
    memcpy(spec, data, n_spec);
    spec[n_spec] = 0;
    n += stop != NULL;
    one_file_put(data + n, size - n);
    quiet_begin(NULL);
    int code = steer_read(&s, spec);
    size_t told = quiet_told();
    quiet_end();
    MUST(code == EXIT_OK ? told == 0 : told > 0);
    fuzz_saw_number((uint64_t)code);
    if (code == EXIT_OK)
        use_rows(&s);
    steer_free(&s);
    char *path = steer_path(spec);
    MUST(path && strncmp(path, spec, strlen(path)) == 0);
    free(path);
    return 0;
}
