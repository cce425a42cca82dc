/* Tracing in the repl. What a timeline's hooks hold follows from its tokens, so nothing is written
 * along the way: when tracing ends, the current timeline is run once more, with the edits in force,
 * and its values go to the file. */
#include "base/mem.h"
#include "repl/repl.h"
#include "repl/repl_args.h"
#include "trace/trace_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Failures to write are reported at the end. */
static int store(const mgpt_value *value, void *user)
{
    trace_values_store(value, user);
    return 0;
}

static void forget(struct repl *r)
{
    free(r->trace_globs);
    free(r->trace_path);
    r->trace_globs = r->trace_path = NULL;
}

static struct hook *repl_trace_choose(struct repl *r, const char *globs)
{
    const struct hook *all = repl_hooks(r);
    mgpt_error err;
    struct hook *hooks = all ? hooks_choose(all, globs, &err) : NULL;
    if (all && !hooks)
        repl_failed(&err);
    return hooks;
}

static void write_values(struct repl *r, const struct hook *hooks)
{
    const mgpt_session *session = r->engine.session;
    struct trace_values values;
    enum trace_format format;
    mgpt_error err;
    trace_format_of(r->trace_path, &format);
    int status = trace_values_plan(&values, hooks, r->engine.info.n_layer, mgpt_pos(session),
                                   format, TRACE_F32, &err);
    if (status == MGPT_OK)
        status = trace_values_open(&values, r->trace_path, mgpt_tokens(session), &err);
    if (status == MGPT_OK && repl_replay(r, hooks_points(hooks), store, &values)) {
        status = trace_values_commit(&values, &err);
        if (status == MGPT_OK)
            printf("traced %zu tokens, %zu hooks\n", mgpt_pos(session), arr_len(hooks));
    }
    if (status < 0)
        repl_file_failed(r->trace_path, &err);
    trace_values_discard(&values);
}

void repl_trace_end(struct repl *r)
{
    struct hook *hooks = NULL;
    if (!r->trace_path)
        return;
    if (mgpt_pos(r->engine.session) == 0)
        repl_error("%s: nothing to trace, the timeline is empty", r->trace_path);
    else if ((hooks = repl_trace_choose(r, r->trace_globs)) != NULL)
        write_values(r, hooks);
    arr_free(hooks);
    forget(r);
}

/* Checks everything now: a file that cannot be written is refused before the work. */
static void repl_trace_begin(struct repl *r, const char *globs, const char *path)
{
    enum trace_format format;
    struct hook *hooks;
    mgpt_error err;
    if (!*path || !trace_format_of(path, &format)) {
        repl_error("expected hooks and a file that ends in .npz or .safetensors, found '%s'", path);
        return;
    }
    if (trace_file_may_write(path, format, &err) < 0) {
        repl_file_failed(path, &err);
        return;
    }
    hooks = repl_trace_choose(r, globs);
    if (!hooks)
        return;
    forget(r);
    r->trace_globs = strdup(globs);
    r->trace_path = strdup(path);
    if (r->trace_globs && r->trace_path) {
        printf("tracing %zu hooks, written at /trace off or at the end\n", arr_len(hooks));
    } else {
        repl_no_memory();
        forget(r);
    }
    arr_free(hooks);
}

void repl_run_trace(struct repl *r, struct repl_args *args)
{
    const char *what = repl_word(args);
    if (strcmp(what, "on") == 0) {
        const char *globs = repl_word(args);
        repl_trace_begin(r, globs, args->rest);
    } else if (*what && strcmp(what, "off") != 0) {
        repl_error("expected on or off, found '%s'", what);
    } else if (!r->trace_path) {
        puts("no trace is on");
    } else if (*what) {
        repl_trace_end(r);
    } else {
        repl_say("tracing to %s", r->trace_path);
    }
}
