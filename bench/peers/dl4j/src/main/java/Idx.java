import java.io.DataInputStream;
import java.io.IOException;
import java.io.BufferedInputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** An IDX file of bytes: two zeros, type 8, the rank, sizes (big-endian u32), bytes. */
record Idx(int[] sizes, byte[] values) {
    static Idx read(Path path) throws IOException {
        try (var file = new DataInputStream(new BufferedInputStream(Files.newInputStream(path)))) {
            int magic = file.readInt();
            if (magic >>> 8 != 8) {
                throw new IOException(String.format(
                        "`%s` is no IDX file of bytes: expected magic 00 00 08, found %08x", path, magic));
            }
            int[] sizes = new int[magic & 0xff];
            int count = 1;
            for (int axis = 0; axis < sizes.length; axis++) {
                sizes[axis] = file.readInt();
                count = Math.multiplyExact(count, sizes[axis]);
            }
            byte[] values = file.readNBytes(count);
            if (values.length != count) {
                throw new IOException(String.format("`%s` promises %d bytes, found %d", path, count, values.length));
            }
            return new Idx(sizes, values);
        }
    }
}
