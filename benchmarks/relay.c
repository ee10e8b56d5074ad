/* Passes TCP connections on to a port of this machine, and everything late: a server far away.
 *
 *   relay PORT DELAY_MS    prints its own port, and serves until its standard input ends
 *
 * Bytes arrive DELAY_MS later in each direction, and the first ones of a connection another 2 * DELAY_MS
 * later, which is what the handshake takes. Bandwidth is not limited: so much may be on its way as memory
 * takes, up to MOST for each direction of a connection. Compiled and run by `remote_server.py`.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIECE (256 << 10)
#define MOST (64 << 20)
#define CONNECTIONS 2000

struct piece {
	struct piece *next;
	int64_t due;
	size_t start, stop;
	char data[PIECE];
};

struct way { /* one direction of a connection */
	struct piece *first, *last;
	size_t held;
	int64_t not_before, ends;
	int is_over, is_told; /* the sender has closed; the receiver was told */
};

struct connection {
	int sockets[2];
	struct way ways[2]; /* ways[i]: from sockets[i] to the other */
};

static struct connection connections[CONNECTIONS];
static int count;
static int64_t delay;
static struct piece *unused;

static void fail(const char *what)
{
	fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static struct sockaddr_in local(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static void begin(int listener, int port)
{
	struct sockaddr_in server = local(port);
	int one = 1;
	int client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (client < 0)
		return; /* it went away again */
	int upstream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (upstream < 0 || connect(upstream, (struct sockaddr *)&server, sizeof server))
		fail("the server");
	fcntl(upstream, F_SETFL, O_NONBLOCK);
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(upstream, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (count == CONNECTIONS) {
		fprintf(stderr, "relay: more than %d connections\n", CONNECTIONS);
		exit(1);
	}
	struct connection *new = &connections[count++];
	memset(new, 0, sizeof *new);
	new->sockets[0] = client;
	new->sockets[1] = upstream;
	new->ways[0].not_before = now() + 3 * delay;
}

static void take(struct way *way, int from)
{
	while (way->held < MOST && !way->is_over) {
		struct piece *piece = unused;
		if (piece)
			unused = piece->next;
		else if (!(piece = malloc(sizeof *piece)))
			fail("memory");
		ssize_t got = recv(from, piece->data, PIECE, 0);
		if (got <= 0) {
			piece->next = unused;
			unused = piece;
			if (got < 0 && (errno == EAGAIN || errno == EINTR))
				return;
			way->is_over = 1;
			way->ends = now() + delay;
			return;
		}
		piece->due = now() + delay;
		if (piece->due < way->not_before)
			piece->due = way->not_before;
		piece->start = 0;
		piece->stop = got;
		piece->next = NULL;
		if (way->first)
			way->last->next = piece;
		else
			way->first = piece;
		way->last = piece;
		way->held += got;
	}
}

/* Sends what is due. -1: the connection is broken. */
static int give(struct way *way, int to, int64_t time)
{
	while (way->first && way->first->due <= time) {
		struct piece *piece = way->first;
		size_t left = piece->stop - piece->start;
		ssize_t sent = send(to, piece->data + piece->start, left, MSG_NOSIGNAL);
		if (sent < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		way->held -= sent;
		piece->start += sent;
		if (piece->start < piece->stop)
			return 0;
		way->first = piece->next;
		piece->next = unused;
		unused = piece;
	}
	if (!way->first && way->is_over && !way->is_told && way->ends <= time) {
		shutdown(to, SHUT_WR);
		way->is_told = 1;
	}
	return 0;
}

static void end(int number)
{
	struct connection *old = &connections[number];
	for (int i = 0; i < 2; i++) {
		close(old->sockets[i]);
		while (old->ways[i].first) {
			struct piece *piece = old->ways[i].first;
			old->ways[i].first = piece->next;
			piece->next = unused;
			unused = piece;
		}
	}
	*old = connections[--count];
}

int main(int argc, char **argv)
{
	static struct pollfd polled[2 + 2 * CONNECTIONS];
	struct sockaddr_in own = local(0);
	socklen_t size = sizeof own;
	if (argc != 3) {
		fprintf(stderr, "usage: see the head of relay.c\n");
		return 2;
	}
	int port = atoi(argv[1]);
	delay = atoll(argv[2]) * 1000000;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&own, size) || listen(listener, 1024) ||
	    getsockname(listener, (struct sockaddr *)&own, &size))
		fail("listen");
	printf("%d\n", ntohs(own.sin_port));
	fflush(stdout);

	for (;;) {
		int64_t time = now(), next = INT64_MAX;
		polled[0] = (struct pollfd){0, POLLIN, 0};
		polled[1] = (struct pollfd){listener, POLLIN, 0};
		for (int i = 0; i < count; i++)
			for (int side = 0; side < 2; side++) {
				struct way *out = &connections[i].ways[side], *in = &connections[i].ways[!side];
				int64_t due = INT64_MAX;
				if (out->first)
					due = out->first->due > time ? out->first->due : INT64_MAX;
				else if (out->is_over && !out->is_told)
					due = out->ends > time ? out->ends : time;
				if (due < next)
					next = due;
				/* Due already, and still here: the receiver takes no more for now. */
				int is_full = in->first && in->first->due <= time;
				short events = (out->is_over || out->held >= MOST ? 0 : POLLIN);
				events |= is_full ? POLLOUT : 0;
				polled[2 + 2 * i + side] = (struct pollfd){
				    events ? connections[i].sockets[side] : -1, events, 0};
			}
		struct timespec pause = {(next - time) / 1000000000, (next - time) % 1000000000};
		if (ppoll(polled, 2 + 2 * count, next == INT64_MAX ? NULL : &pause, NULL) < 0)
			fail("poll");
		if (polled[0].revents)
			return 0; /* who started it has ended, or ends it */
		for (int i = count - 1; i >= 0; i--) {
			struct connection *one = &connections[i];
			int is_broken = 0;
			for (int side = 0; side < 2; side++) {
				if (polled[2 + 2 * i + side].revents & ~POLLOUT)
					take(&one->ways[side], one->sockets[side]);
				is_broken |= give(&one->ways[side], one->sockets[!side], now()) < 0;
			}
			if (is_broken || (one->ways[0].is_told && one->ways[1].is_told))
				end(i);
		}
		if (polled[1].revents)
			begin(listener, port);
	}
}
