/* values MODEL step|feed N...: the bits of every value of a run, on the public header alone.
 *
 * For the first N tokens, for each N in ascending order: the hash of all logits as mgpt check --self has
 * it ("N check HASH"), and the CRC-32 of each value ("N NAME CRC"), whose rows are in order of position;
 * attention has a row of pos + 1 numbers for each head. step: the logits are those of single steps
 * without a tap, the values those of single steps with one. feed: all of it from one mgpt_feed.
 */
#include <mgpt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MOST = 64, TOKENS_MOST = 4096 };

struct sums {
    uint64_t check; /* FNV-1a of all logits */
    uint32_t crc[MGPT_N_POINTS][LAYERS_MOST];
    int seen[MGPT_N_POINTS][LAYERS_MOST];
    size_t n_vocab;
};

static uint32_t crc_of(uint32_t crc, const void *data, size_t n)
{
    static uint32_t table[256];
    for (uint32_t i = 0; !table[255] && i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320u : 0);
    }
    crc = ~crc;
    for (const unsigned char *p = data; n > 0; n--)
        crc = crc >> 8 ^ table[(crc ^ *p++) & 255];
    return ~crc;
}

static void hash_logits(struct sums *s, const float *row)
{
    const unsigned char *p = (const unsigned char *)row;
    for (size_t i = 0; i < s->n_vocab * sizeof *row; i++)
        s->check = (s->check ^ p[i]) * UINT64_C(0x100000001B3);
}

static int see(const mgpt_value *value, void *user)
{
    struct sums *s = user;
    int layer = value->layer < 0 ? 0 : value->layer;
    s->seen[value->point][layer] = value->layer < 0 ? -1 : 1;
    for (size_t i = 0; i < (size_t)value->rows; i++)
        s->crc[value->point][layer] =
            crc_of(s->crc[value->point][layer], value->data + i * value->stride,
                   (size_t)value->cols * sizeof(float));
    return 0;
}

static int see_fed(const mgpt_value *value, void *user)
{
    for (int32_t i = 0; value->point == MGPT_LOGITS && i < value->rows; i++)
        hash_logits(user, value->data + (size_t)i * value->stride);
    return see(value, user);
}

static void print_sums(const struct sums *s, size_t n)
{
    char name[64];
    printf("%zu check %016llx\n", n, (unsigned long long)s->check);
    for (int point = 0; point < MGPT_N_POINTS; point++)
        for (int layer = 0; layer < LAYERS_MOST; layer++)
            if (s->seen[point][layer]) {
                mgpt_point_name((mgpt_point)point, layer, name, sizeof name);
                printf("%zu %s %08x\n", n, name, (unsigned)s->crc[point][layer]);
            }
}

static int is_wanted(char **lengths, size_t n)
{
    for (; *lengths; lengths++)
        if (strtoul(*lengths, NULL, 10) == n)
            return 1;
    return 0;
}

static int run_steps(mgpt_session *tapped, mgpt_session *plain, const int32_t *tokens, size_t n,
                     char **lengths, struct sums *s, mgpt_error *err)
{
    int status = mgpt_tap(tapped, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, see, s, err);
    for (size_t i = 0; status == MGPT_OK && i < n; i++) {
        const float *logits = mgpt_step(plain, tokens[i], err);
        const float *again = logits ? mgpt_step(tapped, tokens[i], err) : NULL;
        status = again ? MGPT_OK : err->status;
        if (!again)
            break;
        hash_logits(s, logits);
        if (memcmp(logits, again, s->n_vocab * sizeof *logits) != 0)
            printf("0 tapped-differs %08zx\n", i);
        if (is_wanted(lengths, i + 1))
            print_sums(s, i + 1);
    }
    return status;
}

static int run_feeds(mgpt_session *session, const int32_t *tokens, char **lengths, struct sums *s,
                     mgpt_error *err)
{
    int status = mgpt_tap(session, MGPT_POINT_BIT(MGPT_N_POINTS) - 1, see_fed, s, err);
    for (; status == MGPT_OK && *lengths; lengths++) {
        size_t n = strtoul(*lengths, NULL, 10);
        *s = (struct sums){.check = UINT64_C(0xCBF29CE484222325), .n_vocab = s->n_vocab};
        status = mgpt_rewind(session, 0, err);
        if (status == MGPT_OK)
            status = mgpt_feed(session, tokens, n, err);
        if (status == MGPT_OK)
            print_sums(s, n);
    }
    return status;
}

static int run_model(const mgpt_model *model, char **argv, size_t n, mgpt_error *err)
{
    static struct sums sums = {.check = UINT64_C(0xCBF29CE484222325)};
    static int32_t tokens[TOKENS_MOST];
    const mgpt_session_params params = {.kv_type = MGPT_KV_F32, .n_threads = 1};
    mgpt_info info;
    int status = mgpt_get_info(model, &info, err);
    for (size_t i = 0; status == MGPT_OK && i < n; i++)
        tokens[i] = (int32_t)((i * i * 7919 + i * 13 + 5) % (size_t)info.n_tokens);
    sums.n_vocab = (size_t)info.n_vocab;
    mgpt_session *session = status == MGPT_OK ? mgpt_session_new(model, &params, err) : NULL;
    mgpt_session *plain = session ? mgpt_session_new(model, &params, err) : NULL;
    status = plain ? MGPT_OK : err->status;
    if (plain && strcmp(argv[2], "step") == 0)
        status = run_steps(session, plain, tokens, n, argv + 3, &sums, err);
    else if (plain)
        status = run_feeds(session, tokens, argv + 3, &sums, err);
    mgpt_session_free(plain);
    mgpt_session_free(session);
    return status;
}

int main(int argc, char **argv)
{
    mgpt_error err;
    size_t n = argc > 3 ? strtoul(argv[argc - 1], NULL, 10) : 0;
    mgpt_model *model = n > 0 && n <= TOKENS_MOST ? mgpt_open(argv[1], NULL, &err) : NULL;
    if (!model || run_model(model, argv, n, &err) < 0)
        return fprintf(stderr, "%s: %s\n", argc > 1 ? argv[1] : "values", err.text), 1;
    mgpt_close(model);
    return 0;
}
