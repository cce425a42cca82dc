/* Model types, and which formats each option of mgpt convert applies to: mgpt convert --help.
 *
 * Both are printed from the tables that the reader of Hugging Face models and ckpt_check_options use,
 * so that they always agree with them. A container whose tensors' names decide (PyTorch, safetensors)
 * is not listed: its mappings are.
 */
#include "common/cli.h"
#include "convert/families/hf.h"
#include "convert/families/torch_model.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 24 };

static int is_container(const struct ckpt_reader *r)
{
    return r->read == torch_reader_read || r->read == safetensors_read ||
           r->read == hf_untyped_read || r->read == npz_reader_read;
}

static int begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* "microgpt JSON" is listed as the mapping microgpt, and a pickle as its mapping. */
static int is_said(const struct ckpt_reader *r, unsigned option)
{
    const struct torch_mapping *m;
    int is_pickle = r->read == microgpt_pickle_read;
    for (size_t i = 0; (m = torch_mapping_at(i)); i++)
        if (m->options & option && (is_pickle || begins_with(r->name, m->name)))
            return 1;
    return 0;
}

static const char *family_name(size_t i)
{
    const struct hf_family *f = hf_family_at(i); /* programs are last */
    return f && !f->program ? f->model_type : NULL;
}

static const char *wrapper_name(size_t i)
{
    return hf_wrapper_at(i) ? hf_wrapper_at(i)->model_type : NULL;
}

/* Prints a title, and below it the names that name_at returns until NULL. */
static void print_words(const char *title, const char *(*name_at)(size_t i))
{
    const char *name;
    struct cli_list list = {.to = stdout, .between = "", .indent = 2, .column = 2};
    printf("\n%s:\n  ", title);
    for (size_t i = 0; (name = name_at(i)); i++)
        cli_print_item(&list, name);
    putchar('\n');
}

void ckpt_print_formats(void)
{
    print_words("model types of Hugging Face", family_name);
    print_words("model types with other parts, of which the text part is read", wrapper_name);
    puts("\nformats that the options apply to:");
    for (size_t i = 0; i < ckpt_n_option_rows; i++) {
        const struct torch_mapping *m;
        const unsigned option = ckpt_option_rows[i].option;
        struct cli_list list = {.to = stdout, .between = ",", .indent = INDENT, .column = INDENT};
        printf("  %-*s", INDENT - 2, ckpt_option_rows[i].name);
        for (size_t k = 0; (m = torch_mapping_at(k)); k++)
            if (m->options & option)
                cli_print_item(&list, m->name);
        for (size_t k = 0; k < ckpt_n_readers; k++)
            if (ckpt_readers[k].options & option && !is_container(&ckpt_readers[k]) &&
                !is_said(&ckpt_readers[k], option))
                cli_print_item(&list, ckpt_readers[k].name);
        putchar('\n');
    }
}
