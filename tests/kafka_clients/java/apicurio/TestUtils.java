package io.apicurio.registry.utils.tests;

import java.util.UUID;
import java.util.concurrent.Callable;

/** What Apicurio's tests of its API wait with: nothing here comes later than its answer, so each is asked for once. */
public final class TestUtils {
  public interface Step {
    void run() throws Exception;
  }

  public static String generateSubject() {
    return UUID.randomUUID().toString();
  }

  public static void retry(Step step) throws Exception {
    step.run();
  }

  public static <T> T retry(Callable<T> step) throws Exception {
    return step.call();
  }
}
