import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Asks Kafka's own StandardAuthorizer. Commands come as lines of tab-separated fields; numbers stand
 * for types and operations, as on the wire.
 *   new ALLOW_EVERYONE SUPER_USERS        begin with no ACLs
 *   acl TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION
 *   ask PRINCIPAL HOST TYPE NAME OPERATION   answered by 1 or 0
 *   any PRINCIPAL HOST TYPE OPERATION        answered by 1 or 0
 */
public class Authorizing {
    private record Client(KafkaPrincipal principal, InetAddress address)
            implements AuthorizableRequestContext {
        @Override public String listenerName() { return "PLAINTEXT"; }
        @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        @Override public InetAddress clientAddress() { return address; }
        @Override public int requestType() { return 0; }
        @Override public int requestVersion() { return 0; }
        @Override public String clientId() { return ""; }
        @Override public int correlationId() { return 0; }
    }

    private static final Map<String, Client> CLIENTS = new HashMap<>();

    private static Client client(String principal, String host) throws Exception {
        Client known = CLIENTS.get(principal + " " + host);
        if (known == null) {
            known = new Client(SecurityUtils.parseKafkaPrincipal(principal), InetAddress.getByName(host));
            CLIENTS.put(principal + " " + host, known);
        }
        return known;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        String line;
        while ((line = in.readLine()) != null) {
            String[] f = line.split("\t", -1);
            switch (f[0]) {
                case "new" -> {
                    Map<String, Object> configs = new HashMap<>();
                    configs.put("node.id", "1");
                    configs.put("allow.everyone.if.no.acl.found", f[1]);
                    configs.put("super.users", f[2]);
                    authorizer.configure(configs);
                    authorizer.loadSnapshot(Map.of());
                }
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(Byte.parseByte(f[1])), f[2],
                    PatternType.fromCode(Byte.parseByte(f[3])), f[4], f[5],
                    AclOperation.fromCode(Byte.parseByte(f[6])),
                    AclPermissionType.fromCode(Byte.parseByte(f[7]))));
                case "ask" -> {
                    ResourcePattern pattern = new ResourcePattern(
                        ResourceType.fromCode(Byte.parseByte(f[3])), f[4], PatternType.LITERAL);
                    Action action = new Action(
                        AclOperation.fromCode(Byte.parseByte(f[5])), pattern, 1, false, false);
                    tell(out, authorizer.authorize(client(f[1], f[2]), List.of(action)).get(0));
                }
                case "any" -> tell(out, authorizer.authorizeByResourceType(
                    client(f[1], f[2]), AclOperation.fromCode(Byte.parseByte(f[4])),
                    ResourceType.fromCode(Byte.parseByte(f[3]))));
                default -> throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }

    private static void tell(PrintStream out, AuthorizationResult result) {
        out.println(result == AuthorizationResult.ALLOWED ? "1" : "0");
    }
}
