package peers;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** What this process has done, as journal.go writes and reads it. */
final class Journal {
    private static final int ENTRY = 28;

    private final FileOutputStream out;
    private final List<Part> parts = new CopyOnWriteArrayList<>();
    private final ThreadLocal<Part> mine = ThreadLocal.withInitial(() -> {
        Part p = new Part();
        parts.add(p);
        return p;
    });

    /** The entries of one thread that are not written yet. */
    private static final class Part {
        private ByteBuffer bytes = ByteBuffer.allocate(64 * ENTRY);

        synchronized void add(Task task, long start, long end) {
            if (bytes.remaining() < ENTRY) bytes = ByteBuffer.allocate(2 * bytes.capacity()).put(bytes.flip());
            bytes.putInt(task.index()).putInt(task.key()).putInt(task.seq()).putLong(start).putLong(end);
        }

        synchronized void writeTo(FileOutputStream out) throws IOException {
            out.write(bytes.array(), 0, bytes.position());
            bytes.clear();
        }
    }

    Journal(String file) throws IOException {
        out = new FileOutputStream(file, true);
        Thread writer = new Thread(() -> {
            try {
                for (; ; Thread.sleep(20)) flush();
            } catch (InterruptedException e) { /* over */ }
        }, "journal");
        writer.setDaemon(true);
        writer.start();
    }

    void add(Task task, long start, long end) { mine.get().add(task, start, end); }

    synchronized void flush() {
        try {
            for (Part p : parts) p.writeTo(out);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
