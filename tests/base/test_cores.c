/* The number of threads that is chosen on made-up machines. A machine is a folder of files as Linux
 * writes them. */
#include "base/cores.h"

#include "support/unit.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[256];

/* Writes ROOT/path and the folders on the way. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root); (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = 0;
        (void)mkdir(full, 0700);
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void begin_machine(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/mgpt-cores-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(root));
}

static void end_machine(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    assert_int_equal(system(command), 0);
}

/* n CPUs with `threads` to a core, numbered as Linux does: first all cores, then their seconds. */
static void put_cpus(int n, int threads)
{
    char path[96], text[96];
    int cores = n / threads;
    snprintf(text, sizeof text, "0-%d\n", n - 1);
    put("sys/devices/system/cpu/online", text);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/topology/core_cpus_list", i);
        if (threads == 2)
            snprintf(text, sizeof text, "%d,%d\n", i % cores, i % cores + cores);
        else
            snprintf(text, sizeof text, "%d\n", i);
        put(path, text);
    }
}

static void check_cores(int first, int last, int want, const char *why)
{
    unsigned char allowed[CORES_CPUS] = {0};
    struct cores cores;
    char found[96];
    memset(allowed + first, 1, (size_t)(last - first + 1));
    cores_read(&cores, root, allowed);
    cores_why(&cores, found, sizeof found);
    assert_int_equal(cores.n, want);
    assert_string_equal(found, why);
}

TEST(physical_cores)
{
    begin_machine();
    check_cores(0, 3, 4, "the cores of this machine"); /* no file says anything */
    put_cpus(8, 1);
    check_cores(0, 7, 8, "the cores of this machine");
    check_cores(2, 4, 3, "CPUs that this process may use, of 8");
    put_cpus(8, 2);
    check_cores(0, 7, 4, "physical cores; 8 hardware threads");
    check_cores(4, 7, 4, "CPUs that this process may use, of 8"); /* the second threads alone */
    check_cores(3, 4, 2, "CPUs that this process may use, of 8"); /* of two cores */
    put_cpus(64, 2);
    check_cores(0, 63, 16, "at most 16 of 32 cores: -t N for more");
    end_machine();
}

TEST(fast_class)
{
    char path[96];
    begin_machine();
    put_cpus(12, 1);
    put("sys/devices/cpu_core/cpus", "0-3\n");
    check_cores(0, 11, 4, "the fast ones of 12 cores");
    check_cores(4, 11, 8, "CPUs that this process may use, of 12"); /* slow ones are all there is */
    end_machine();
    begin_machine();
    put_cpus(8, 1);
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%d/cpu_capacity", i);
        put(path, i < 4 ? "290\n" : i < 7 ? "870\n" : "1024\n");
    }
    check_cores(0, 7, 4, "the fast ones of 8 cores");
    end_machine();
}

TEST(quota_of_version_2)
{
    begin_machine();
    put_cpus(8, 1);
    put("proc/self/cgroup", "0::/work/job\n");
    put("sys/fs/cgroup/work/job/cpu.max", "max 100000\n");
    check_cores(0, 7, 8, "the cores of this machine");
    put("sys/fs/cgroup/work/job/cpu.max", "350000 100000\n");
    check_cores(0, 7, 3, "the control group's quota is 3 of 8 cores");
    put("sys/fs/cgroup/work/cpu.max", "250000 100000\n"); /* the group above allows less */
    check_cores(0, 7, 2, "the control group's quota is 2 of 8 cores");
    put("sys/fs/cgroup/work/job/cpu.max", "50000 100000\n");
    check_cores(0, 7, 1, "the control group's quota is 1 of 8 cores");
    put("sys/fs/cgroup/work/job/cpu.max", "9900000 100000\n");
    check_cores(0, 0, 1, "CPUs that this process may use, of 8");
    end_machine();
}

/* In a container the path is the host's and the root of the mount is the container's group. */
TEST(quota_of_version_1)
{
    begin_machine();
    put_cpus(8, 1);
    put("proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/docker/0123\n0::/\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    check_cores(0, 7, 8, "the cores of this machine");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
    check_cores(0, 7, 1, "the control group's quota is 1 of 8 cores");
    put("sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "400000\n");
    put("sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_period_us", "50000\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    check_cores(0, 7, 8, "the cores of this machine");
    put("sys/fs/cgroup/cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "300000\n");
    check_cores(0, 7, 6, "the control group's quota is 6 of 8 cores");
    end_machine();
}

/* Nonsense in a file limits nothing and never hangs. */
TEST(damaged_files)
{
    begin_machine();
    put("sys/devices/system/cpu/online", "7-3,x,,99999999999999999999-");
    put("sys/devices/system/cpu/cpu0/topology/core_cpus_list", "-,-");
    put("sys/devices/cpu_core/cpus", "2047-99999");
    put("proc/self/cgroup", "0\n::\n4:cpu\n0::/a\n");
    put("sys/fs/cgroup/a/cpu.max", "9223372036854775807 1");
    check_cores(0, 1, 2, "the cores of this machine");
    put("sys/fs/cgroup/a/cpu.max", "5 0");
    check_cores(0, 1, 2, "the cores of this machine");
    end_machine();
}

int main(void)
{
    return unit_run("tests");
}
