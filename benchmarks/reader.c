/* Reads files the way programs do, and says how long that took.
 *
 *   reader seq FILE...               all bytes of each file, one after the other, 1 MiB at a time
 *   reader random THREADS COUNT FILE [SIZE]
 *                                    COUNT different pages of SIZE bytes (4 KiB), in one shuffled order
 *   reader each THREADS FOLDER LIST  open, read, close every file of FOLDER named in LIST
 *
 * Prints the seconds and the bytes read. In C, so that the reader is not what is measured; the
 * threads are made before the clock starts. Compiled by `measurements.py`, run by it and by `images.py`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (1 << 20)
#define PAGE 4096
#define MAX_THREADS 64

static const char *random_path;
static off_t *offsets;
static char **names;
static size_t jobs, page = PAGE;
static int threads = 1, folder_fd = -1;
static pthread_barrier_t start;
static uint64_t bytes_by_thread[MAX_THREADS];

static void fail(const char *what)
{
	fprintf(stderr, "reader: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_or_fail(int folder, const char *path)
{
	int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	return fd;
}

static uint64_t read_all(int fd, char *buffer, const char *path)
{
	uint64_t bytes = 0;
	for (;;) {
		ssize_t count = read(fd, buffer, BLOCK);
		if (count < 0)
			fail(path);
		if (count == 0)
			return bytes;
		bytes += count;
	}
}

static void *buffer_or_fail(void)
{
	void *buffer = NULL;
	if (posix_memalign(&buffer, PAGE, BLOCK))
		fail("memory");
	memset(buffer, 1, BLOCK);
	return buffer;
}

static void *read_at_random(void *number)
{
	size_t first = (size_t)number;
	char *buffer = buffer_or_fail();
	int fd = open_or_fail(AT_FDCWD, random_path);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	pthread_barrier_wait(&start);
	for (size_t job = first; job < jobs; job += threads) {
		if (pread(fd, buffer, page, offsets[job]) != (ssize_t)page)
			fail(random_path);
		bytes_by_thread[first] += page;
	}
	return NULL;
}

static void *read_each(void *number)
{
	size_t first = (size_t)number;
	char *buffer = buffer_or_fail();
	pthread_barrier_wait(&start);
	for (size_t job = first; job < jobs; job += threads) {
		int fd = open_or_fail(folder_fd, names[job]);
		bytes_by_thread[first] += read_all(fd, buffer, names[job]);
		close(fd);
	}
	return NULL;
}

static uint64_t in_threads(void *(*work)(void *), struct timespec *begun)
{
	pthread_t ids[MAX_THREADS];
	uint64_t bytes = 0;
	pthread_barrier_init(&start, NULL, threads + 1);
	for (long i = 0; i < threads; i++)
		if ((errno = pthread_create(&ids[i], NULL, work, (void *)i)))
			fail("thread");
	clock_gettime(CLOCK_MONOTONIC, begun);
	pthread_barrier_wait(&start);
	for (int i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		bytes += bytes_by_thread[i];
	}
	return bytes;
}

static uint64_t next_number(void)
{ /* xorshift64: the same order in each run */
	static uint64_t state = 88172645463325252ULL;
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static void shuffle_offsets(const char *path, size_t count)
{
	struct stat status;
	if (stat(path, &status))
		fail(path);
	size_t pages = status.st_size / page;
	offsets = malloc(pages * sizeof *offsets);
	if (!offsets || count > pages) {
		fprintf(stderr, "reader: %s has only %zu pages\n", path, pages);
		exit(1);
	}
	for (size_t i = 0; i < pages; i++)
		offsets[i] = (off_t)i * page;
	for (size_t i = 0; i < count; i++) {
		size_t other = i + next_number() % (pages - i);
		off_t kept = offsets[i];
		offsets[i] = offsets[other];
		offsets[other] = kept;
	}
	random_path = path;
	jobs = count;
}

static void load_names(const char *path)
{
	FILE *list = fopen(path, "r");
	char *line = NULL;
	size_t room = 0, space = 0;
	if (!list)
		fail(path);
	for (ssize_t length; (length = getline(&line, &room, list)) > 0; jobs++) {
		if (jobs == space) {
			space = space ? 2 * space : 1024;
			names = realloc(names, space * sizeof *names);
			if (!names)
				fail("memory");
		}
		line[length - 1] = '\0';
		names[jobs] = strdup(line);
	}
	fclose(list);
}

int main(int argc, char **argv)
{
	struct timespec begun, ended;
	uint64_t bytes = 0;
	const char *mode = argc > 2 ? argv[1] : "";

	if (!strcmp(mode, "seq")) {
		char *buffer = buffer_or_fail();
		clock_gettime(CLOCK_MONOTONIC, &begun);
		for (int i = 2; i < argc; i++) {
			int fd = open_or_fail(AT_FDCWD, argv[i]);
			bytes += read_all(fd, buffer, argv[i]);
			close(fd);
		}
	} else if ((argc == 5 || argc == 6) && (threads = atoi(argv[2])) > 0 && threads <= MAX_THREADS) {
		if (!strcmp(mode, "random")) {
			if (argc == 6)
				page = strtoull(argv[5], NULL, 10);
			if (!page || page > BLOCK)
				return 2;
			shuffle_offsets(argv[4], strtoull(argv[3], NULL, 10));
			bytes = in_threads(read_at_random, &begun);
		} else if (!strcmp(mode, "each")) {
			load_names(argv[4]);
			folder_fd = open(argv[3], O_PATH | O_DIRECTORY);
			if (folder_fd < 0)
				fail(argv[3]);
			bytes = in_threads(read_each, &begun);
		}
	} else {
		fprintf(stderr, "usage: see the head of reader.c\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%.9f %llu\n",
	       (ended.tv_sec - begun.tv_sec) + (ended.tv_nsec - begun.tv_nsec) / 1e9,
	       (unsigned long long)bytes);
	return 0;
}
