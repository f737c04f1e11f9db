import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words with exactly_once_v2, twice: the second life has no local state, so it restores the
 * counts from the changelog before it goes on. The last line says how it went; status 1 if badly.
 */
public class WordCount {
  private static final int WORDS = 40;
  private static final int IN_A_LINE = 4;
  private static final long PATIENCE_MS = 60_000;

  private final String servers;
  private final String name;
  private final String folder;
  private final String protocol;
  private final Random random = new Random(1);
  private final Map<String, Long> sent = new TreeMap<>();
  private final AtomicReference<Throwable> failure = new AtomicReference<>();

  private WordCount(String servers, String name, String folder, String protocol) {
    this.servers = servers;
    this.name = name;
    this.folder = folder;
    this.protocol = protocol;
  }

  public static void main(String[] arguments) throws Exception {
    WordCount job = new WordCount(arguments[0], arguments[1], arguments[2], arguments[3]);
    int lines = Integer.parseInt(arguments[4]);
    job.createTopics();
    for (int life = 1; life <= 2; life++) {
      job.send(lines);
      job.live(life);
    }
    System.out.printf("%,d words, each counted once%n", 2 * lines * IN_A_LINE);
    System.exit(0);
  }

  private String counts() {
    return name + "-counts";
  }

  private void createTopics() throws Exception {
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
      short replicas = -1;
      admin.createTopics(
          List.of(new NewTopic(name, 3, replicas), new NewTopic(counts(), 3, replicas))).all().get();
    }
  }

  private void send(int lines) {
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(
        Map.of("bootstrap.servers", servers), new StringSerializer(), new StringSerializer())) {
      for (int number = 0; number < lines; number++) {
        StringBuilder line = new StringBuilder();
        for (int at = 0; at < IN_A_LINE; at++) {
          String word = "w" + random.nextInt(WORDS);
          sent.merge(word, 1L, Long::sum);
          line.append(word).append(' ');
        }
        producer.send(new ProducerRecord<>(name, "line" + number, line.toString()));
      }
    }
  }

  private Topology topology() {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(name, Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.trim().split(" ")))
        .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.as("counts"))
        .toStream()
        .to(counts(), Produced.with(Serdes.String(), Serdes.Long()));
    return builder.build();
  }

  private void live(int life) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", servers);
    settings.put("application.id", name);
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("group.protocol", protocol);
    settings.put("num.stream.threads", "2");
    settings.put("state.dir", folder + "/" + life);
    if (protocol.equals("classic")) {
      settings.put("session.timeout.ms", "6000"); // what the next life has to wait for
    }
    KafkaStreams streams = new KafkaStreams(topology(), settings);
    streams.setUncaughtExceptionHandler(problem -> {
      failure.compareAndSet(null, problem);
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.start();
    Map<String, Long> counted = waitForCounts();
    streams.close(Duration.ofSeconds(20));
    if (failure.get() != null) {
      end(failure.get().toString());
    }
    if (!counted.equals(sent)) {
      end("counted " + counted + ", sent " + sent);
    }
  }

  private Map<String, Long> waitForCounts() {
    Map<String, Long> counted = new TreeMap<>();
    Properties settings = new Properties();
    settings.put("bootstrap.servers", servers);
    settings.put("group.id", name + "-reader" + System.nanoTime());
    settings.put("isolation.level", "read_committed");
    settings.put("auto.offset.reset", "earliest");
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    try (KafkaConsumer<String, Long> consumer =
        new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
      consumer.subscribe(List.of(counts()));
      while (!counted.equals(sent) && failure.get() == null
          && System.currentTimeMillis() < deadline) {
        for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
          counted.put(record.key(), record.value());
        }
      }
    }
    return counted;
  }

  private static void end(String reason) {
    System.out.println(reason);
    System.exit(1);
  }
}
