/* Fuzz target: chat templates. The input is a template; it is read and run on a conversation,
 * twice with the same result. A failure has a message and no output.
 */
#define _GNU_SOURCE /* memmem */
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "jinja/jinja.h"

#define TEXT(s) s, sizeof s - 1

static int run_once(const struct jinja *t, int prompt, struct jinja_output *out, mgpt_error *err)
{
    static const struct jinja_message messages[] = {
        {"system", TEXT(" Be brief. ")},
        {"user", TEXT("Hi \"there\"\xFF")},
        {"assistant", TEXT("<think>\nx\n</think>\n\nok")},
        {"user", TEXT("\0\xC3\xA9")}};
    static const struct jinja_fact facts[] = {{"bos_token", JINJA_TEXT, TEXT("<s>"), 0},
                                              {"eos_token", JINJA_TEXT, TEXT("</s>"), 0},
                                              {"enable_thinking", JINJA_FALSE, NULL, 0, 0}};
    const struct jinja_input input = {messages, 4, facts, 3, prompt};
    return jinja_render(t, &input, out, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jinja_output out[2];
    mgpt_error err[2] = {{0}, {0}};
    struct jinja *t = jinja_new((const char *)data, size, &err[0]);
    MUST((t == NULL) == (err[0].status < 0));
    for (int prompt = 0; t && prompt < 2; prompt++) {
        int status = run_once(t, prompt, &out[0], &err[0]);
        MUST(status == MGPT_OK || err[0].text[0]);
        MUST(arr_len(out[0].text) == arr_len(out[0].typed));
        MUST(status == MGPT_OK || !out[0].text);
        MUST(run_once(t, prompt, &out[1], &err[1]) == status);
        MUST(arr_len(out[1].text) == arr_len(out[0].text));
        if (arr_len(out[0].text) > 0 && !memmem(data, size, "strftime", 8))
            MUST(memcmp(out[0].text, out[1].text, arr_len(out[0].text)) == 0);
        for (size_t i = 0; i < arr_len(out[0].typed); i++)
            MUST(out[0].typed[i] == 0 || out[0].typed[i] == 1);
        if (status == MGPT_OK && !memmem(data, size, "strftime", 8)) {
            fuzz_saw(out[0].text, arr_len(out[0].text));
            fuzz_saw(out[0].typed, arr_len(out[0].typed) * sizeof *out[0].typed);
        }
        jinja_output_free(&out[0]);
        jinja_output_free(&out[1]);
    }
    fuzz_saw_error(&err[0]);
    jinja_free(t);
    return 0;
}
