/* The output of one sample: its text as it grows, or a line of JSON at its end. */
#ifndef MGPT_SAMPLE_TEXT_H
#define MGPT_SAMPLE_TEXT_H

#include "common/text.h"
#include "engine/drawn.h"
#include "generate/samples.h"

struct sample_text {
    struct samples *ask;
    struct text_out out;
    int32_t *shown;     /* stb_ds array: the tokens of the text, for --json */
    struct drawn drawn; /* for --top */
    int taken;          /* of ask->choices */
    size_t n_full;      /* samples that ended with the context */
};

void sample_text_open(struct sample_text *text, struct samples *ask);
void sample_text_close(struct sample_text *text);

/* Begins with the prompt, shown or not as asked for. */
void sample_text_begin(struct sample_text *text);
void sample_text_put(struct sample_text *text, int32_t token);

/* Notes the numbers of the token that was put last, if asked for. */
void sample_text_note(struct sample_text *text, int32_t token, const mgpt_sampler *sampler,
                      const float *logits);

/* Adds text that has been made: n bytes and, for --json, the tokens that they are. */
void sample_text_add(struct sample_text *text, const char *bytes, size_t n, const int32_t *tokens,
                     size_t n_tokens);

/* Begins with the prompt, and goes on with a choice of ask->choices. */
void sample_text_choice(struct sample_text *text, int taken);

/* Prints what is left of the text of sample `number`. Returns an exit code. */
int sample_text_end(struct sample_text *text, uint64_t number, enum ending ending);

/* Keeps what would be printed, which --json cannot, until sample_text_release prints it. */
void sample_text_hold(struct sample_text *text);
void sample_text_release(struct sample_text *text);

/* Ends an unfinished text after a failure or Ctrl-C and returns `code`. */
int sample_text_break(struct sample_text *text, uint64_t number, int code);

#endif
