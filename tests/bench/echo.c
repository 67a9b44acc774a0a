/* What the edge is compared with: a server in plain C that finds the same frames and acknowledges them, without session,
   log, or limits. One thread, epoll; answers each DATA_ACK of hsp.

       cc -O2 -o echo echo.c && ./echo PORT */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PENDING = 1 << 18, AT_ONCE = 256, DATA_HEAD = 7, DATA_ACK_HEAD = 11, ACK = 5 };

struct peer {
    int fd;
    size_t have;
    unsigned char pending[PENDING];
};

static unsigned char answers[PENDING];

static void write_all(int fd, const unsigned char *data, size_t size) {
    while (size > 0) {
        ssize_t put = write(fd, data, size);
        if (put <= 0)
            return;
        data += put;
        size -= (size_t)put;
    }
}

/* Takes what is whole; returns the bytes that were used. */
static size_t frames(struct peer *peer) {
    size_t at = 0, answered = 0;
    while (at < peer->have) {
        const unsigned char *frame = peer->pending + at;
        size_t head = frame[0] ? DATA_ACK_HEAD : DATA_HEAD, left = peer->have - at;
        uint32_t body;
        if (left < head)
            break;
        memcpy(&body, frame + head - 4, 4);
        if (left < head + ntohl(body))
            break;
        if (frame[0]) {
            answers[answered] = 2;
            memcpy(answers + answered + 1, frame + 1, 4);
            answered += ACK;
        }
        at += head + ntohl(body);
    }
    write_all(peer->fd, answers, answered);
    return at;
}

static int serve(struct peer *peer) {
    ssize_t got = read(peer->fd, peer->pending + peer->have, PENDING - peer->have);
    if (got <= 0)
        return 0;
    peer->have += (size_t)got;
    size_t used = frames(peer);
    peer->have -= used;
    memmove(peer->pending, peer->pending + used, peer->have);
    return 1;
}

static void greet(int poll, int listener) {
    struct peer *peer = malloc(sizeof *peer);
    peer->fd = accept(listener, NULL, NULL);
    peer->have = 0;
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = peer};
    epoll_ctl(poll, EPOLL_CTL_ADD, peer->fd, &wanted);
}

int main(int count, char **words) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), yes = 1;
    if (count != 2)
        return 2;
    at.sin_port = htons((uint16_t)atoi(words[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1024))
        return 1;
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = NULL}, ready[AT_ONCE];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &wanted);
    for (;;) {
        int found = epoll_wait(poll, ready, AT_ONCE, -1);
        for (int i = 0; i < found; i++) {
            struct peer *peer = ready[i].data.ptr;
            if (peer == NULL)
                greet(poll, listener);
            else if (!serve(peer)) {
                close(peer->fd);
                free(peer);
            }
        }
    }
}
