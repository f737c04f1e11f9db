// Kafka's own Java client, driven by lines of JSON: one command in, one answer out. Bytes travel
// as base64. Settings are the client's defaults, plus what a command names.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final String bootstrap;

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        // What libraries print must not mix with the answers.
        PrintStream answers = System.out;
        System.setOut(System.err);
        Driver driver = new Driver(arguments[0]);
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("result", driver.run(JSON.readTree(line)));
            } catch (Exception problem) {
                Throwable cause = problem.getCause() == null ? problem : problem.getCause();
                answer.put("error", cause.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
    }

    private JsonNode run(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "create_topic":
                return createTopic(command);
            case "produce":
                return produce(command);
            case "consume":
                return consume(command);
            case "offset_at_time":
                return offsetAtTime(command);
            case "offsets":
                return offsets(command);
            case "administer":
                return administer(command);
            default:
                throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private Properties settings(JsonNode command) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (String part : List.of("login", "settings")) {
            if (command.has(part)) {
                command.get(part).fields().forEachRemaining(
                    entry -> settings.put(entry.getKey(), entry.getValue().asText()));
            }
        }
        return settings;
    }

    private JsonNode createTopic(JsonNode command) throws Exception {
        Map<String, String> configs = new HashMap<>();
        command.get("configs").fields()
            .forEachRemaining(entry -> configs.put(entry.getKey(), entry.getValue().asText()));
        NewTopic topic = new NewTopic(
            command.get("topic").asText(), Optional.of(command.get("partitions").asInt()),
            Optional.empty());
        try (Admin admin = Admin.create(settings(command))) {
            admin.createTopics(List.of(topic.configs(configs))).all().get();
        }
        return JSON.nullNode();
    }

    private JsonNode produce(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        ArrayNode places = JSON.createArrayNode();
        ByteArraySerializer serializer = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(settings(command), serializer, serializer)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode message : command.get("messages")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode header : message.get("headers")) {
                    headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
                }
                JsonNode partition = message.get("partition");
                JsonNode timestamp = message.get("timestamp");
                sent.add(producer.send(new ProducerRecord<>(
                    topic,
                    partition.isNull() ? null : partition.asInt(),
                    timestamp.isNull() ? null : timestamp.asLong(),
                    bytes(message.get("key")), bytes(message.get("value")), headers)));
            }
            for (Future<RecordMetadata> future : sent) {
                RecordMetadata place = future.get();
                places.addArray().add(place.partition()).add(place.offset());
            }
        }
        return places;
    }

    private JsonNode consume(JsonNode command) {
        int count = command.get("count").asInt();
        ArrayNode received = JSON.createArrayNode();
        long deadline = System.nanoTime() + command.get("patience_seconds").asLong() * 1_000_000_000L;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            TopicPartition place = place(command);
            consumer.assign(List.of(place));
            consumer.seek(place, command.get("offset").asLong());
            while (received.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    if (received.size() < count) {
                        add(received, record);
                    }
                }
            }
        }
        return received;
    }

    private static void add(ArrayNode received, ConsumerRecord<byte[], byte[]> record) {
        ObjectNode found = received.addObject();
        found.put("partition", record.partition());
        found.put("offset", record.offset());
        found.put("timestamp", record.timestamp());
        found.put("key", record.key());
        found.put("value", record.value());
        ArrayNode headers = found.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
    }

    private JsonNode offsetAtTime(JsonNode command) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            TopicPartition place = place(command);
            OffsetAndTimestamp found =
                consumer.offsetsForTimes(Map.of(place, command.get("timestamp").asLong())).get(place);
            return found == null ? JSON.nullNode() : JSON.valueToTree(found.offset());
        }
    }

    private JsonNode offsets(JsonNode command) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(command)) {
            TopicPartition place = place(command);
            ArrayNode limits = JSON.createArrayNode();
            limits.add(consumer.beginningOffsets(List.of(place)).get(place));
            limits.add(consumer.endOffsets(List.of(place)).get(place));
            return limits;
        }
    }

    // Everything that the admin client offers for one node without groups, and what it answers.
    private JsonNode administer(JsonNode command) throws Exception {
        String topic = command.get("topic").asText();
        TopicPartition place = new TopicPartition(topic, 0);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        ObjectNode seen = JSON.createObjectNode();
        try (Admin admin = Admin.create(settings(command))) {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            TopicDescription description =
                admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            seen.put("partitions", description.partitions().size());
            seen.put("described by id", admin.describeTopics(
                org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(description.topicId())))
                .allTopicIds().get().get(description.topicId()).name());
            seen.put("listed", admin.listTopics().names().get().contains(topic));
            seen.put("nodes", admin.describeCluster().nodes().get().size());
            seen.put("operations", description.authorizedOperations() != null);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(
                new ConfigEntry("retention.ms", "77777777"), AlterConfigOp.OpType.SET)))).all().get();
            seen.put("retention.ms", admin.describeConfigs(List.of(resource)).all().get()
                .get(resource).get("retention.ms").value());
            seen.put("earliest", offset(admin, place, OffsetSpec.earliest()));
            seen.put("latest", offset(admin, place, OffsetSpec.latest()));
            seen.put("max timestamp", offset(admin, place, OffsetSpec.maxTimestamp()));
            seen.put("producers", admin.describeProducers(List.of(place)).all().get()
                .get(place).activeProducers().size());
            seen.put("low watermark", admin.deleteRecords(
                Map.of(place, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(place).get()
                .lowWatermark());
            int node = admin.describeCluster().controller().get().id();
            seen.put("log dirs", admin.describeLogDirs(List.of(node)).allDescriptions().get()
                .get(node).size());
            seen.put("config resources", admin.listConfigResources().all().get().size() > 0);
            seen.put("features", admin.describeFeatures().featureMetadata().get() != null);
            admin.deleteTopics(List.of(topic)).all().get();
        }
        return seen;
    }

    private static long offset(Admin admin, TopicPartition place, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(place, spec)).partitionResult(place).get().offset();
    }

    private KafkaConsumer<byte[], byte[]> consumer(JsonNode command) {
        ByteArrayDeserializer deserializer = new ByteArrayDeserializer();
        return new KafkaConsumer<>(settings(command), deserializer, deserializer);
    }

    private static TopicPartition place(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    private static byte[] bytes(JsonNode base64) throws Exception {
        return base64.isNull() ? null : base64.binaryValue();
    }
}
