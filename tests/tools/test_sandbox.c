/* What is possible inside the sandbox of the commands that read strangers' files, tried from
 * inside: each row of the table is an attempt in a process of its own. Skipped where the kernel has
 * no Landlock. */
#include "base/outfile.h"
#include "common/sandbox.h"
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The folder that main made is the current one:
 *     in/model in/config in/far -> ../secret/blob in/sub/deep   named/text named/other
 *     out/old   secret/key secret/blob secret/dir/              hf/config.json hf/weights */
static const char *const folders[] = {"in", "in/sub", "named", "out", "secret", "secret/dir", "hf"};
static const char *const files[] = {"in/model",       "in/config", "in/sub/deep", "named/text",
                                    "named/other",    "out/old",   "secret/key",  "secret/blob",
                                    "hf/config.json", "hf/weights"};

enum sandbox_act { READ, WRITE, CREATE, REMOVE, RENAME, REPLACE, LIST, CONNECT, SEND_SIGNAL };

/* 0 or errno. */
static int attempt(enum sandbox_act act, const char *path)
{
    struct outfile out;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = 1};
    int status = 0;
    switch (act) {
    case READ:
        status = open(path, O_RDONLY);
        break;
    case WRITE:
        status = open(path, O_WRONLY);
        break;
    case CREATE:
        status = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        break;
    case REMOVE:
        status = unlink(path);
        break;
    case RENAME:
        status = rename(path, "out/moved");
        break;
    case LIST:
        status = open(path, O_RDONLY | O_DIRECTORY);
        break;
    case CONNECT:
        status =
            connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
        break;
    case SEND_SIGNAL:
        status = kill(getppid(), 0);
        break;
    case REPLACE:
        if (outfile_open(&out, path, NULL) < 0)
            return EACCES;
        outfile_write(&out, "new", 3);
        return outfile_commit(&out, NULL) == MGPT_OK ? 0 : EACCES;
    }
    return status < 0 ? errno : 0;
}

static int try_inside(enum sandbox_act act, const char *path)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        sandbox_enter(&(struct sandbox){
            .checkpoints = {"in/model", "hf"}, .files = {"named/text", "-"}, .output = "out/new"});
        _exit(attempt(act, path));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(what_is_possible)
{
    static const struct {
        enum sandbox_act act;
        const char *path;
        int want;
    } rows[] = {
        /* what was named, what is next to a checkpoint, and what links there lead to */
        {READ, "in/model", 0},
        {READ, "in/config", 0},
        {READ, "in/far", 0},
        {READ, "secret/blob", 0}, /* the same file */
        {READ, "hf/config.json", 0},
        {READ, "hf/weights", 0},
        {READ, "named/text", 0},
        /* nothing else */
        {READ, "named/other", EACCES},
        {READ, "in/sub/deep", EACCES},
        {READ, "secret/key", EACCES},
        {READ, "in/../secret/key", EACCES},
        {READ, "out/old", EACCES},
        {READ, "/etc/passwd", EACCES},
        {LIST, "secret", EACCES},
        {LIST, "in", EACCES},
        {LIST, "/", EACCES},
        /* writing: the output's folder */
        {REPLACE, "out/new", 0},
        {REPLACE, "out/old", 0},
        {CREATE, "out/another", 0},
        {REMOVE, "out/old", 0},
        {WRITE, "in/model", EACCES},
        {WRITE, "secret/key", EACCES},
        {CREATE, "in/new", EACCES},
        {CREATE, "secret/new", EACCES},
        {CREATE, "new", EACCES},
        {REPLACE, "secret/key", EACCES},
        {REMOVE, "in/model", EACCES},
        {REMOVE, "secret/key", EACCES},
        {RENAME, "secret/key", EACCES},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int found = try_inside(rows[i].act, rows[i].path);
        if (found != rows[i].want)
            fail_msg("row %zu, %s: found %s, expected %s", i, rows[i].path, strerror(found),
                     strerror(rows[i].want));
        unlink("out/another");
        close(open("out/old", O_WRONLY | O_CREAT, 0600));
    }
}

/* From version 4 of Landlock on, and from version 6. */
TEST(network_and_signals)
{
    if (sandbox_works() >= 4)
        assert_int_equal(try_inside(CONNECT, NULL), EACCES);
    if (sandbox_works() >= 6)
        assert_int_equal(try_inside(SEND_SIGNAL, NULL), EPERM);
}

/* Without an output nothing can be written. */
TEST(no_output)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        sandbox_enter(&(struct sandbox){.checkpoints = {"in/model"}});
        _exit(attempt(READ, "in/model") == 0 && attempt(CREATE, "out/another") == EACCES &&
              attempt(CREATE, "in/another") == EACCES && attempt(WRITE, "/dev/null") == EACCES);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 1);
}

int main(void)
{
    char place[256];
    const char *tmp = getenv("TMPDIR");
    snprintf(place, sizeof place, "%s/mgpt-sandbox-XXXXXX", tmp ? tmp : "/tmp");
    if (sandbox_works() < 1) {
        puts("skipped: no Landlock here");
        return 77;
    }
    if (!mkdtemp(place) || chdir(place) < 0)
        return 1;
    for (size_t i = 0; i < COUNT(folders); i++)
        if (mkdir(folders[i], 0700) < 0)
            return 1;
    for (size_t i = 0; i < COUNT(files); i++)
        close(open(files[i], O_WRONLY | O_CREAT, 0600));
    if (symlink("../secret/blob", "in/far") < 0)
        return 1;
    int failed = unit_run("tests");
    unlink("in/far");
    unlink("out/new");
    for (size_t i = 0; i < COUNT(files); i++)
        unlink(files[i]);
    for (size_t i = COUNT(folders); i-- > 0;)
        rmdir(folders[i]);
    return chdir("/") < 0 || rmdir(place) < 0 ? 1 : failed;
}
