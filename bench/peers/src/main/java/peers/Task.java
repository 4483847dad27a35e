package peers;

import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.concurrent.locks.LockSupport;

/** What one record asks for; see Task in work.go. */
record Task(int index, int key, int seq, int micros) {
    static Task decode(byte[] value) {
        ByteBuffer b = ByteBuffer.wrap(value);
        return new Task(b.getInt(), b.getInt(), b.getInt(), b.getInt());
    }

    void perform() {
        if (micros == 0) return;
        long end = System.nanoTime() + micros * 1000L;
        for (long left; (left = end - System.nanoTime()) > 0; ) LockSupport.parkNanos(left);
    }

    /** The machine's clock in microseconds. */
    static long now() {
        Instant i = Instant.now();
        return i.getEpochSecond() * 1_000_000 + i.getNano() / 1000;
    }
}
