/* llama2.c: cc -O2 -I llama2.c llama2_c.c -lm -o llama2_c; its run.c is a program whose main is left out.
 * suite.py run DIR --engine './llama2_c {model} {ids} {out} {how}' --format bin */
#define TESTING
#include "run.c"

int main(int argc, char **argv)
{
    Transformer t;
    FILE *ids = fopen(argv[2], "r"), *out = fopen(argv[3], "wb");
    int id, pos = 0;
    if (argc > 4 && strcmp(argv[4], "--step") != 0) {
        fprintf(stderr, "no such way: %s\n", argv[4]);
        return 3;
    }
    build_transformer(&t, argv[1]);
    while (fscanf(ids, "%d", &id) == 1) {
        if (pos == t.config.seq_len) {
            fprintf(stderr, "the text is longer than the context\n");
            return 3;
        }
        fwrite(forward(&t, id, pos++), sizeof(float), (size_t)t.config.vocab_size, out);
    }
    return fclose(out) != 0;
}
