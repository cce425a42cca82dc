/* llm.c's GPT-2 on the CPU: cc -O2 -I llm.c llm_c.c -lm -o llm_c; its train_gpt2.c is a program whose main is left out.
 * suite.py run DIR --engine './llm_c {model} {ids} {out}' --format llmc */
#define TESTING
#include "train_gpt2.c"

int main(int argc, char **argv)
{
    GPT2 model;
    FILE *file = fopen(argv[2], "r"), *out = fopen(argv[3], "wb");
    int *ids = NULL, n = 0, id;
    if (argc > 4) {
        fprintf(stderr, "no such way: %s\n", argv[4]);
        return 3;
    }
    while (fscanf(file, "%d", &id) == 1) {
        ids = realloc(ids, (size_t)(n + 1) * sizeof *ids);
        ids[n++] = id;
    }
    gpt2_build_from_checkpoint(&model, argv[1]);
    gpt2_forward(&model, ids, NULL, 1, (size_t)n);
    for (int pos = 0; pos < n; pos++)
        fwrite(model.acts.logits + (size_t)pos * (size_t)model.config.padded_vocab_size,
               sizeof(float), (size_t)model.config.vocab_size, out);
    return fclose(out) != 0;
}
