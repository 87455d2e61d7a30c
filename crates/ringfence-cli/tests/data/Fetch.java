import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

/** Fetches a page as a program of the Java platform does. */
public class Fetch {
    public static void main(String[] arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(arguments[0])).build();
        System.out.println(HttpClient.newHttpClient().send(request, BodyHandlers.ofString()).body());
    }
}
