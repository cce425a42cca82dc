/* Templates: the first walk, and runs with messages. See jinja.h. */
#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "jinja/run.h"

#include <stdlib.h>
#include <string.h>

/* A walk over all of it; jinja_end_run frees what it took. Returns a status. */
static int jinja_walk(struct jinja_run *r)
{
    jinja_statements(r);
    if (r->status == MGPT_OK && jinja_now(r)->type != T_END)
        jinja_fail(r, "a tag that ends nothing");
    return r->status;
}

struct jinja *jinja_new(const char *text, size_t n, mgpt_error *err)
{
    struct jinja *t = calloc(1, sizeof *t);
    struct jinja_run r = {.t = t, .is_first_walk = 1, .err = err};
    struct jinja_buffer out = {0};
    r.out = &out;
    if (!t) {
        err_memory(err, "the chat template", n);
        return NULL;
    }
    int status = jinja_lex(t, text, n, err);
    if (status == MGPT_OK) {
        jinja_open_frame(&r, NULL);
        status = r.frame ? jinja_walk(&r) : r.status;
    }
    jinja_free_blocks(&r);
    if (status == MGPT_OK)
        return t;
    jinja_free(t);
    return NULL;
}

void jinja_free(struct jinja *t)
{
    if (!t)
        return;
    arr_free(t->source);
    arr_free(t->pool);
    arr_free(t->tokens);
    free(t);
}

int jinja_reads(const struct jinja *t, const char *name)
{
    for (size_t i = 0; i < arr_len(t->tokens); i++) {
        const struct jinja_token *now = &t->tokens[i];
        if (now->type == T_NAME && jinja_is(jinja_string(now->s, now->n), name) && i > 0 &&
            !(now[-1].type == T_OP && now[-1].i == '.'))
            return 1;
    }
    return 0;
}

static struct jinja_value message_value(struct jinja_run *r, const struct jinja_message *m)
{
    struct jinja_value v = {.kind = J_DICT, .dict = jinja_take(r, 1, sizeof *v.dict)};
    if (!v.dict)
        return jinja_none();
    jinja_set_pair(r, v.dict, jinja_ascii(r, "role"), jinja_ascii(r, m->role));
    jinja_set_pair(r, v.dict, jinja_ascii(r, "content"), jinja_utf8(r, m->text, m->n, JINJA_TYPED));
    return v;
}

static struct jinja_value fact_value(struct jinja_run *r, const struct jinja_fact *f)
{
    switch (f->type) {
    case JINJA_TEXT:
        return jinja_utf8(r, f->text, f->n, 0);
    case JINJA_NUMBER:
        return jinja_int(f->number);
    case JINJA_NONE:
        return jinja_none();
    default:
        return jinja_bool(f->type == JINJA_TRUE);
    }
}

static void set_input(struct jinja_run *r, const struct jinja_input *input)
{
    struct jinja_value *messages = jinja_take(r, input->n_messages, sizeof *messages);
    for (size_t i = 0; messages && i < input->n_messages; i++)
        messages[i] = message_value(r, &input->messages[i]);
    if (r->status != MGPT_OK)
        return;
    jinja_set_variable(r, jinja_ascii(r, "messages"), jinja_list(messages, input->n_messages));
    jinja_set_variable(r, jinja_ascii(r, "tools"), jinja_none());
    jinja_set_variable(r, jinja_ascii(r, "documents"), jinja_none());
    jinja_set_variable(r, jinja_ascii(r, "add_generation_prompt"),
                       jinja_bool(input->add_generation_prompt));
    for (size_t i = 0; i < input->n_facts; i++)
        jinja_set_variable(r, jinja_ascii(r, input->facts[i].name),
                           fact_value(r, &input->facts[i]));
}

static int put_character(struct jinja_output *out, uint32_t c)
{
    char bytes[4], marks[4];
    uint32_t code = JINJA_CODE(c);
    size_t n = code >= JINJA_BAD_BYTE ? 1 : utf8_put(code, bytes);
    if (code >= JINJA_BAD_BYTE)
        bytes[0] = (char)(code - JINJA_BAD_BYTE);
    memset(marks, (c & JINJA_TYPED) != 0, sizeof marks);
    return arr_append(&out->text, bytes, n) && arr_append(&out->typed, marks, n);
}

int jinja_render(const struct jinja *t, const struct jinja_input *input, struct jinja_output *out,
                 mgpt_error *err)
{
    struct jinja_run r = {.t = (struct jinja *)(uintptr_t)t, .live = 1, .err = err};
    struct jinja_buffer text = {0};
    *out = (struct jinja_output){NULL, NULL};
    r.out = &text;
    jinja_open_frame(&r, NULL);
    if (r.frame)
        set_input(&r, input);
    int status = r.status == MGPT_OK ? jinja_walk(&r) : r.status;
    for (size_t i = 0; i < text.n && status == MGPT_OK; i++)
        if (!put_character(out, text.s[i]))
            status = err_memory(err, "the conversation", text.n);
    jinja_free_blocks(&r);
    if (status != MGPT_OK)
        jinja_output_free(out);
    return status;
}

void jinja_output_free(struct jinja_output *out)
{
    arr_free(out->text);
    arr_free(out->typed);
    *out = (struct jinja_output){NULL, NULL};
}
