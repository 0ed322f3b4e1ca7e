package io.apicurio.registry;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.restassured.RestAssured;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.RestService;
import org.junit.jupiter.api.BeforeEach;

/**
 * What Apicurio's tests of its API stand on, for a registry that runs already: the system property {@code registry} is its URL.
 *
 * <p>Each test finds it without subjects and their configurations, and with NONE as the compatibility of all, which is Apicurio's.
 */
public abstract class AbstractResourceTestBase {
  public static final String CT_JSON = "application/json";
  private static final String URL = System.getProperty("registry");
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  protected final RestService confluentClient = new RestService(URL);

  @BeforeEach
  protected void empty() throws Exception {
    RestAssured.baseURI = URL;
    answer("PUT", "/mode", "{\"mode\": \"READWRITE\"}");
    for (int round = 0; round < 5 && !subjects().isEmpty(); round++) {
      for (String subject : subjects()) {
        String path = "/subjects/" + URLEncoder.encode(subject, StandardCharsets.UTF_8).replace("+", "%20");
        answer("DELETE", path, "");
        answer("DELETE", path + "?permanent=true", "");
      }
    }
    answer("DELETE", "/config/testSubject", "");
    answer("PUT", "/config", "{\"compatibility\": \"NONE\"}");
  }

  protected String generateArtifactId() {
    return UUID.randomUUID().toString();
  }

  private static List<String> subjects() throws Exception {
    List<String> found = new ArrayList<>();
    new ObjectMapper().readTree(answer("GET", "/subjects?deleted=true", "")).forEach(one -> found.add(one.asText()));
    return found;
  }

  private static String answer(String method, String path, String body) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(URL + path))
            .method(method, HttpRequest.BodyPublishers.ofString(body))
            .header("Content-Type", "application/json")
            .build();
    return HTTP.send(request, HttpResponse.BodyHandlers.ofString()).body();
  }
}
