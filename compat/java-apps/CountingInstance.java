import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * One instance of an application that counts the values of a topic, with exactly_once_v2, as a
 * streams group (KIP-1071). It prints each change of its state, and runs until it is ended.
 */
public class CountingInstance {
  public static void main(String[] arguments) {
    String servers = arguments[0];
    String name = arguments[1];
    String folder = arguments[2];
    Properties settings = new Properties();
    settings.put("bootstrap.servers", servers);
    settings.put("application.id", name);
    settings.put("group.protocol", "streams");
    settings.put("processing.guarantee", "exactly_once_v2");
    settings.put("commit.interval.ms", "200");
    settings.put("num.stream.threads", "2");
    settings.put("state.dir", folder);
    settings.put("application.server", "localhost:" + arguments[3]);
    KafkaStreams streams = new KafkaStreams(topology(name), settings);
    streams.setUncaughtExceptionHandler(problem -> {
      System.out.println("FAILED " + problem);
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.setStateListener((state, before) -> {
      System.out.println("STATE " + state);
      System.out.flush();
    });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
    streams.start();
  }

  private static Topology topology(String name) {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(name, Consumed.with(Serdes.String(), Serdes.String()))
        .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.as("counts"))
        .toStream()
        .mapValues(String::valueOf)
        .to(name + "-counts", Produced.with(Serdes.String(), Serdes.String()));
    return builder.build();
  }
}
