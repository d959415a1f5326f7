use super::settings::Settings;
use super::*;

#[test]
fn neither_errors_nor_debug_contain_the_password() {
    for url in [
        "postgresql://me:hunter2@db/store?sslmod=require",
        "postgresql://me:hunter2@db:x/store",
        "postgresql://me:hunter2@db/store?password=se&cret=1",
        "postgresql://me:a@hunter2/b@db/store",
        "postgresql://me:hunter2",
        "postgresql:///store?password=a@hunter2",
        "me:hunter2@db",
    ] {
        let error = Settings::parse(url).unwrap_err().to_string();
        assert!(error.contains("its URL is invalid"), "{error}");
        let said = error.replace("?sslmode=require", "").replace("user:password@", "");
        assert!(!["hunter2", "cret"].iter().any(|it| said.contains(it)), "{url}: {error}");
    }
    let url = "postgresql://me:hunter2@db:5433/store?openskill_unsafe=allow&sslrootcert=/nowhere";
    assert!(!format!("{:?}", crate::Location::Postgres(url.to_owned())).contains("hunter2"));
    assert!(!Settings::parse(url).unwrap_err().to_string().contains("hunter2"));
}

#[test]
fn a_url_has_defaults_which_it_can_change() {
    let settings = Settings::parse("postgres://me:x@a,b:6000/store?keepalives_idle=60&openskill_unsafe=allow").unwrap();
    assert_eq!(settings.name, "PostgreSQL a:5432,b:6000/store");
    assert!(settings.allows_loss);
    assert!(!format!("{settings:?}").contains("\"x\""));
    let servers: Vec<_> = settings.servers().map(|(_, it)| it).collect();
    assert_eq!(servers.len(), 2, "each host is tried by itself");
    for server in servers {
        assert_eq!(server.get_application_name(), Some("openskill"));
        assert_eq!(server.get_keepalives_idle(), Duration::from_secs(60));
        assert_eq!(server.get_connect_timeout(), Some(&Duration::from_secs(3)));
    }
    settings.prefer(1);
    let order: Vec<_> = settings.servers().map(|(number, it)| (number, it.get_ports()[0])).collect();
    assert_eq!(order, [(1, 6000), (0, 5432)]);
    let error = Settings::parse("postgres://a/store?openskill_unsafe=yes").unwrap_err().to_string();
    assert!(error.contains("'allow'"), "{error}");
}

#[tokio::test]
async fn a_connection_gives_up_on_a_server_that_is_away() {
    let settings = Settings::parse("postgresql://me:hunter2@127.0.0.1:1/store?sslmode=disable").unwrap();
    let mut connection = Connection::new(Arc::new(settings));
    let error = connection.open(Instant::now() + Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(reason) if reason.contains("127.0.0.1:1")), "{error}");
}
