import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other in one JVM, whose start costs more than their work. Each line of the standard input is a
 * class and its arguments, with tabs in between. The answer is what the tool printed, standard error included, and then a form feed, its exit
 * status and a line end. It ends with its input.
 */
public class Tools {
    private static final ByteArrayOutputStream printed = new ByteArrayOutputStream();

    private static final class Exited extends RuntimeException {
        final int status;

        Exited(int status) {
            super("exit status " + status);
            this.status = status;
        }
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        // Before any logger takes them for its own.
        System.setOut(new PrintStream(printed, true));
        System.setErr(System.out);
        Exit.setExitProcedure((status, message) -> { throw new Exited(status); });
        Exit.setHaltProcedure((status, message) -> { throw new Exited(status); });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] words = line.split("\t", -1);
            int status = run(words[0], Arrays.copyOfRange(words, 1, words.length));
            printed.writeTo(answers);
            printed.reset();
            answers.print("\f" + status + "\n");
            answers.flush();
        }
        System.exit(0); // whatever a tool has left running
    }

    private static int run(String tool, String[] args) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) args);
            return 0;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Exited exited) {
                return exited.status;
            }
            e.getCause().printStackTrace();
            return 1;
        }
    }
}
