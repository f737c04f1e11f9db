/* The bench's client: a small C program on librdkafka, so that the client's own cost stays low.
 *
 *   client MODE bootstrap=HOST:PORT topic=NAME [name=value]...
 *
 *   produce   messages of `size` bytes as fast as they are acknowledged
 *   transactions  the same, every `run` messages a transaction, each committed before the next
 *   consume   the first `messages` of the topic, from its beginning
 *   scan      the whole topic again and again for `seconds` (a load, not a measurement)
 *   latency   one message at a time at a fixed `rate`, timed to its acknowledgement and to its
 *             arrival at a consumer in this same process
 *   versions  what it is built on
 *
 * Rules: one line of JSON on stdout and exit status 0, or one line on stderr and status 1. A run
 * that lost a message or saw an error is a failure, never a figure. Settings that begin with
 * "rd." go to librdkafka as they are, without the prefix.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 100
#define BATCH 1000                 /* messages handed over in one call of librdkafka */
#define SILENCE_NS 60000000000LL   /* no progress for so long is a failure */
#define PAYLOADS (1 << 20)         /* incompressible bytes that all messages are cut from */

static int arg_count;
static char **arg_values;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("client: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static const char *text(const char *name, const char *otherwise) {
    size_t length = strlen(name);
    for (int i = 2; i < arg_count; i++)
        if (!strncmp(arg_values[i], name, length) && arg_values[i][length] == '=')
            return arg_values[i] + length + 1;
    if (!otherwise)
        fail("missing %s=", name);
    return otherwise;
}

static long number(const char *name, const char *otherwise) {
    const char *value = text(name, otherwise);
    char *end;
    errno = 0;
    long result = strtol(value, &end, 10);
    if (errno || end == value || *end || result < 0)
        fail("%s=%s is not a number", name, value);
    return result;
}

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec +
           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* CPU seconds of the busiest thread: near the wall time, the client itself is the limit. */
static double busiest_thread(void) {
    double most = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], line[1024];
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!file)
            continue;
        unsigned long user, system;
        char *rest = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
        if (rest && sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                           &system) == 2) {
            double seconds = (double)(user + system) / sysconf(_SC_CLK_TCK);
            most = seconds > most ? seconds : most;
        }
        fclose(file);
    }
    closedir(tasks);
    return most;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char why[300];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        fail("%s", why);
}

static rd_kafka_conf_t *settings(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", text("bootstrap", NULL));
    set(conf, "socket.nagle.disable", "true");
    return conf;
}

/* Last, so that what the caller asks for wins over a mode's own choice. */
static void apply_given(rd_kafka_conf_t *conf) {
    for (int i = 2; i < arg_count; i++) {
        char name[200];
        const char *equals = strchr(arg_values[i], '=');
        if (strncmp(arg_values[i], "rd.", 3) || !equals)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - arg_values[i] - 3), arg_values[i] + 3);
        set(conf, name, equals + 1);
    }
}

static rd_kafka_t *handle(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char why[300];
    apply_given(conf);
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk)
        fail("%s", why);
    return rk;
}

/* Waits for the topic's leaders, so that neither connecting nor metadata is in the figures. */
static rd_kafka_topic_t *open_topic(rd_kafka_t *rk, long partitions) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, text("topic", NULL), NULL);
    long long give_up = now_ns() + SILENCE_NS;
    for (;;) {
        const struct rd_kafka_metadata *answer;
        rd_kafka_resp_err_t error = rd_kafka_metadata(rk, 0, topic, &answer, 10000);
        int ready = !error && answer->topic_cnt == 1 && !answer->topics[0].err &&
                    answer->topics[0].partition_cnt >= partitions;
        for (long p = 0; ready && p < partitions; p++)
            ready = answer->topics[0].partitions[p].leader >= 0;
        if (!error)
            rd_kafka_metadata_destroy(answer);
        if (ready)
            return topic;
        if (now_ns() > give_up)
            fail("topic %s has no leaders: %s", text("topic", NULL), rd_kafka_err2str(error));
        usleep(20000);
    }
}

/* How many records the first partitions hold: librdkafka's word alone does not count. A leader
 * may be named before it serves, so an error is final only after a while. */
static long stored(rd_kafka_t *rk, long partitions) {
    long total = 0;
    long long give_up = now_ns() + SILENCE_NS;
    for (long p = 0; p < partitions; p++) {
        int64_t low, high;
        rd_kafka_resp_err_t error;
        while ((error = rd_kafka_query_watermark_offsets(rk, text("topic", NULL), p, &low, &high,
                                                         30000))) {
            if (now_ns() > give_up)
                fail("watermarks of partition %ld: %s", p, rd_kafka_err2str(error));
            usleep(20000);
        }
        total += high - low;
    }
    return total;
}

static void report(long messages, double seconds, double cpu) {
    printf("{\"messages\": %ld, \"seconds\": %.6f, \"cpu\": %.3f, \"busiest_thread\": %.3f}\n",
           messages, seconds, cpu, busiest_thread());
}

static char *payloads(void) {
    char *bytes = malloc(2 * PAYLOADS);
    unsigned long long state = 88172645463325252ULL;
    for (long i = 0; i < 2 * PAYLOADS; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        bytes[i] = (char)state;
    }
    return bytes;
}

/* ---- produce ---- */

static void on_failed_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    if (message->err)
        fail("a message was not delivered: %s", rd_kafka_err2str(message->err));
}

/* `run` messages go to a partition before the next one's turn comes. With batches of the same
 * size, ten partitions and ten thousand make the same requests. */
static void produce(void) {
    long messages = number("messages", NULL), size = number("size", "200");
    long partitions = number("partitions", "1"), run = number("run", "1000");
    if (size > PAYLOADS || run < 1 || run > BATCH || partitions < 1)
        fail("size, run or partitions is out of range");
    rd_kafka_conf_t *conf = settings();
    rd_kafka_conf_set_dr_msg_cb(conf, on_failed_delivery);
    set(conf, "delivery.report.only.error", "true");
    set(conf, "acks", "1");
    set(conf, "queue.buffering.max.kbytes", "2000000");
    rd_kafka_t *rk = handle(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = open_topic(rk, partitions);
    char *bytes = payloads();
    long before = partitions <= 100 ? stored(rk, partitions) : 0;
    static rd_kafka_message_t batch[BATCH];
    double cpu = cpu_seconds();
    long long start = now_ns(), progress = start;
    for (long sent = 0, partition = 0; sent < messages; partition = (partition + 1) % partitions) {
        long count = messages - sent < run ? messages - sent : run;
        for (long i = 0; i < count; i++)
            batch[i] = (rd_kafka_message_t){.payload = bytes + (sent + i) * 64 % PAYLOADS,
                                            .len = size};
        for (long done = 0; done < count;) {
            int taken = rd_kafka_produce_batch(topic, partition, 0, batch + done, count - done);
            /* A full queue fails the tail: offer what was not taken again. */
            if (taken < count - done) {
                for (long i = done; i < count; i++)
                    if (batch[i].err && batch[i].err != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                        fail("produce: %s", rd_kafka_err2str(batch[i].err));
                rd_kafka_poll(rk, 1);
            }
            if (taken)
                progress = now_ns();
            else if (now_ns() - progress > SILENCE_NS)
                fail("no progress after %ld messages", sent);
            done += taken;
        }
        sent += count;
    }
    if (rd_kafka_flush(rk, SILENCE_NS / 1000000))
        fail("%d messages were not acknowledged", rd_kafka_outq_len(rk));
    double seconds = (now_ns() - start) / 1e9;
    cpu = cpu_seconds() - cpu;
    if (partitions <= 100 && stored(rk, partitions) - before != messages)
        fail("%ld of %ld messages are in the log", stored(rk, partitions) - before, messages);
    report(messages, seconds, cpu);
}

/* ---- transactions ---- */

static void done(rd_kafka_error_t *error, const char *what) {
    if (error)
        fail("%s: %s", what, rd_kafka_error_string(error));
}

static void transactions(void) {
    long messages = number("messages", NULL), size = number("size", "200");
    long run = number("run", "1000");
    if (size > PAYLOADS || run < 1 || run > BATCH)
        fail("size or run is out of range");
    rd_kafka_conf_t *conf = settings();
    rd_kafka_conf_set_dr_msg_cb(conf, on_failed_delivery);
    set(conf, "delivery.report.only.error", "true");
    set(conf, "transactional.id", text("topic", NULL));
    rd_kafka_t *rk = handle(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *topic = open_topic(rk, 1);
    char *bytes = payloads();
    static rd_kafka_message_t batch[BATCH];
    done(rd_kafka_init_transactions(rk, SILENCE_NS / 1000000), "init");
    double cpu = cpu_seconds();
    long long start = now_ns();
    for (long sent = 0; sent < messages; sent += run) {
        for (long i = 0; i < run; i++)
            batch[i] = (rd_kafka_message_t){.payload = bytes + (sent + i) * 64 % PAYLOADS,
                                            .len = size};
        done(rd_kafka_begin_transaction(rk), "begin");
        if (rd_kafka_produce_batch(topic, 0, 0, batch, run) != run)
            fail("produce: %s", rd_kafka_err2str(batch[0].err));
        done(rd_kafka_commit_transaction(rk, SILENCE_NS / 1000000), "commit");
    }
    double seconds = (now_ns() - start) / 1e9;
    cpu = cpu_seconds() - cpu;
    /* What is told is the last stable offset: the last marker may still be on its way. */
    long found;
    for (long long give_up = now_ns() + SILENCE_NS; (found = stored(rk, 1)) < messages;)
        if (now_ns() > give_up)
            fail("%ld of %ld messages are in the log", found, messages);
    report(messages, seconds, cpu);
}

/* ---- consume and scan ---- */

struct count {
    long messages, wanted;
    long long bytes;
    int ended; /* partitions read to their end */
};

static void on_message(rd_kafka_message_t *message, void *opaque) {
    struct count *count = opaque;
    if (!message->err) {
        count->messages++;
        count->bytes += message->len;
    } else if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        count->ended++;
    } else {
        fail("consume: %s", rd_kafka_message_errstr(message));
    }
}

static void read_from_start(rd_kafka_topic_t *topic, long partitions, rd_kafka_queue_t *queue) {
    for (long p = 0; p < partitions; p++)
        if (rd_kafka_consume_start_queue(topic, p, 0, queue))
            fail("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
}

static void consume(void) {
    long partitions = number("partitions", "1");
    struct count count = {.wanted = number("messages", NULL)};
    rd_kafka_t *rk = handle(RD_KAFKA_CONSUMER, settings());
    rd_kafka_topic_t *topic = open_topic(rk, partitions);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    double cpu = cpu_seconds();
    long long start = now_ns(), progress = start;
    read_from_start(topic, partitions, queue);
    while (count.messages < count.wanted) {
        if (rd_kafka_consume_callback_queue(queue, POLL_MS, on_message, &count) > 0)
            progress = now_ns();
        else if (now_ns() - progress > SILENCE_NS)
            fail("no progress after %ld messages", count.messages);
    }
    report(count.messages, (now_ns() - start) / 1e9, cpu_seconds() - cpu);
}

static void scan(void) {
    long partitions = number("partitions", "1");
    long long start = now_ns(), end = start + number("seconds", NULL) * 1000000000LL;
    struct count count = {0};
    rd_kafka_conf_t *conf = settings();
    set(conf, "enable.partition.eof", "true");
    rd_kafka_t *rk = handle(RD_KAFKA_CONSUMER, conf);
    rd_kafka_topic_t *topic = open_topic(rk, partitions);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    while (now_ns() < end) {
        count.ended = 0;
        read_from_start(topic, partitions, queue);
        while (count.ended < partitions && now_ns() < end)
            rd_kafka_consume_callback_queue(queue, POLL_MS, on_message, &count);
        for (long p = 0; p < partitions; p++)
            rd_kafka_consume_stop(topic, p);
    }
    printf("{\"messages\": %ld, \"bytes\": %lld, \"seconds\": %.6f}\n", count.messages, count.bytes,
           (now_ns() - start) / 1e9);
}

/* ---- latency ---- */

struct stamp {
    long index;
    long long sent;
};

static long long *acknowledged, *arrived; /* nanoseconds after sending, by message index */
static atomic_long acknowledged_count, arrived_count;
static atomic_int stopping;

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    (void)rk, (void)opaque;
    struct stamp stamp;
    if (message->err)
        fail("a message was not delivered: %s", rd_kafka_err2str(message->err));
    memcpy(&stamp, message->payload, sizeof stamp);
    acknowledged[stamp.index] = now_ns() - stamp.sent;
    acknowledged_count++;
}

static void *poll_deliveries(void *rk) {
    while (!stopping)
        rd_kafka_poll(rk, POLL_MS);
    return NULL;
}

static void on_arrival(rd_kafka_message_t *message, void *opaque) {
    (void)opaque;
    struct stamp stamp;
    if (message->err)
        fail("consume: %s", rd_kafka_message_errstr(message));
    memcpy(&stamp, message->payload, sizeof stamp);
    arrived[stamp.index] = now_ns() - stamp.sent;
    arrived_count++;
}

static void *poll_arrivals(void *queue) {
    while (!stopping)
        rd_kafka_consume_callback_queue(queue, POLL_MS, on_arrival, NULL);
    return NULL;
}

static void print_list(const char *name, const long long *values, long from, long to) {
    printf("\"%s\": [", name);
    for (long i = from; i < to; i++)
        printf("%s%.1f", i > from ? ", " : "", values[i] / 1e3);
    printf("]");
}

/* Messages leave on a fixed timetable whether or not earlier ones were answered, so a stall is
 * seen by every message that falls into it. */
static void latency(void) {
    long warm_up = number("warm_up", "200"), messages = warm_up + number("messages", NULL);
    long size = number("size", "200"), rate = number("rate", "200"), consumes = number("consume", "1");
    if (size < (long)sizeof(struct stamp) || size > PAYLOADS || rate < 1)
        fail("size or rate is out of range");
    acknowledged = calloc(messages, sizeof *acknowledged);
    arrived = calloc(messages, sizeof *arrived);
    rd_kafka_conf_t *conf = settings();
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    set(conf, "acks", "1");
    set(conf, "linger.ms", "0");
    rd_kafka_t *producer = handle(RD_KAFKA_PRODUCER, conf);
    rd_kafka_topic_t *out = open_topic(producer, 1);
    pthread_t deliveries, arrivals;
    pthread_create(&deliveries, NULL, poll_deliveries, producer);
    if (consumes) {
        rd_kafka_t *consumer = handle(RD_KAFKA_CONSUMER, settings());
        rd_kafka_topic_t *in = open_topic(consumer, 1);
        rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer);
        long end = stored(consumer, 1);
        if (rd_kafka_consume_start_queue(in, 0, end, queue))
            fail("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
        pthread_create(&arrivals, NULL, poll_arrivals, queue);
    }
    char *bytes = payloads();
    double cpu = cpu_seconds();
    long long start = now_ns();
    for (long i = 0; i < messages; i++) {
        long long due = start + i * 1000000000LL / rate;
        struct timespec until = {due / 1000000000LL, due % 1000000000LL};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        struct stamp stamp = {i, now_ns()};
        memcpy(bytes, &stamp, sizeof stamp);
        if (rd_kafka_produce(out, 0, RD_KAFKA_MSG_F_COPY, bytes, size, NULL, 0, NULL))
            fail("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
    }
    long long give_up = now_ns() + SILENCE_NS;
    while (acknowledged_count < messages || (consumes && arrived_count < messages)) {
        if (now_ns() > give_up)
            fail("%ld of %ld messages acknowledged, %ld arrived", (long)acknowledged_count, messages,
                 (long)arrived_count);
        usleep(1000);
    }
    double seconds = (now_ns() - start) / 1e9;
    stopping = 1;
    printf("{\"messages\": %ld, \"seconds\": %.6f, \"cpu\": %.3f, ", messages - warm_up, seconds,
           cpu_seconds() - cpu);
    print_list("ack_us", acknowledged, warm_up, messages);
    printf(", ");
    print_list("arrival_us", arrived, warm_up, consumes ? messages : warm_up);
    printf("}\n");
}

int main(int count, char **values) {
    arg_count = count;
    arg_values = values;
    const char *mode = count > 1 ? values[1] : "";
    if (!strcmp(mode, "versions")) {
        printf("{\"librdkafka\": \"%s\"}\n", rd_kafka_version_str());
        return 0;
    }
    void (*run)(void) = !strcmp(mode, "produce")        ? produce
                        : !strcmp(mode, "transactions") ? transactions
                        : !strcmp(mode, "consume")      ? consume
                        : !strcmp(mode, "scan")         ? scan
                        : !strcmp(mode, "latency")      ? latency
                                                        : NULL;
    if (!run)
        fail("MODE is produce, transactions, consume, scan, latency or versions");
    run();
    /* Leaving without tearing librdkafka down: its threads hold nothing that must be kept. */
    fflush(stdout);
    _exit(0);
}
