/* A token by its bytes. See edit_rules.h. In a file of its own, which a page's module has too. */
#include "choose/edit_rules.h"

#include <string.h>

int32_t edit_token_with(const mgpt_model *model, edit_text_fn *text_of, const char *bytes, size_t n)
{
    mgpt_info info = {.n_tokens = 0};
    mgpt_get_info(model, &info, NULL);
    for (int32_t i = 0; i < info.n_tokens && n > 0; i++) {
        size_t length;
        const char *text = text_of(model, i, &length);
        if (length == n && memcmp(text, bytes, n) == 0)
            return i;
    }
    return -1;
}

int32_t edit_token_of(const mgpt_model *model, const char *bytes, size_t n)
{
    return edit_token_with(model, mgpt_piece, bytes, n);
}
