/* A program linked as the wheel's is, with glibc 2.28's symbols: a constructor, a thread, stat, libm. Prints exp(1) + 2. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

static int constructed;

__attribute__((constructor)) static void construct(void)
{
    constructed = 1;
}

static void *compute(void *number)
{
    double *x = number;
    *x = exp(*x) + pow(2, *x);
    return x;
}

int main(int n, char **arguments)
{
    double x = n;
    pthread_t thread;
    struct stat file;
    if (!constructed) {
        fputs("the constructor did not run\n", stderr);
        return 1;
    }
    if (stat(arguments[0], &file) || file.st_size < 1000) {
        fputs("stat does not find the program\n", stderr);
        return 1;
    }
    if (pthread_create(&thread, NULL, compute, &x) || pthread_join(thread, NULL)) {
        fputs("no thread\n", stderr);
        return 1;
    }
    printf("%.17g\n", x);
    return 0;
}
