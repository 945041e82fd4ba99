//! The contract of files.

macro_rules! all {
    ($open:expr) => {
        crate::contract::hold!(
            fs,
            $open,
            [
                write_read_delete,
                files_of_another_tenant_are_invisible,
                create_new_does_not_overwrite,
                folders_are_created_listed_and_removed,
                links_are_not_followed,
                only_files_are_overwritten,
                effects_are_applied_once,
            ]
        );
    };
}
pub(crate) use all;

pub(crate) mod laws {
    use surfaces::Code;
    use surfaces::fs::{Files, Kind, RelativePath, Written};

    use crate::helper::{NOW, scope};

    fn path(text: &str) -> RelativePath {
        RelativePath::parse(text).unwrap()
    }

    pub(crate) async fn write_read_delete(port: &dyn Files) {
        let at = scope("acme");
        assert_eq!(port.read(&at, path("a/b")).await.unwrap_err().code, Code::FileNotFound);
        assert_eq!(port.stat(&at, path("a/b")).await.unwrap(), None);
        for content in [&b"one"[..], b"", b"\0\xff three"] {
            assert_eq!(port.write(&at, path("a/b"), content.to_vec(), false).await.unwrap(), Written::Done);
            assert_eq!(port.read(&at, path("a/b")).await.unwrap(), content);
            let stat = port.stat(&at, path("a/b")).await.unwrap().unwrap();
            assert_eq!((stat.size, stat.kind), (content.len() as u64, Kind::File));
            assert_eq!(stat.mtime_ms, i64::try_from(NOW).unwrap(), "the time comes from the call");
        }
        assert!(port.delete(&at, path("a/b")).await.unwrap());
        assert!(!port.delete(&at, path("a/b")).await.unwrap());
        assert!(!port.delete(&at, path("nowhere/b")).await.unwrap());
        assert_eq!(port.stat(&at, path("a/b")).await.unwrap(), None);
    }

    pub(crate) async fn files_of_another_tenant_are_invisible(port: &dyn Files) {
        port.write(&scope("acme"), path("a"), b"mine".to_vec(), false).await.unwrap();
        for other in ["other", "Acme", "acme."] {
            let other = scope(other);
            assert_eq!(port.read(&other, path("a")).await.unwrap_err().code, Code::FileNotFound);
            assert_eq!(port.stat(&other, path("a")).await.unwrap(), None);
            assert!(!port.delete(&other, path("a")).await.unwrap());
            assert!(port.list(&other, None, None).await.unwrap().entries.is_empty());
        }
        assert_eq!(port.read(&scope("acme"), path("a")).await.unwrap(), b"mine");
    }

    pub(crate) async fn create_new_does_not_overwrite(port: &dyn Files) {
        let at = scope("acme");
        assert_eq!(port.write(&at, path("a"), b"1".to_vec(), true).await.unwrap(), Written::Done);
        assert_eq!(port.write(&at, path("a"), b"2".to_vec(), true).await.unwrap(), Written::AlreadyExists);
        assert_eq!(port.read(&at, path("a")).await.unwrap(), b"1");
    }

    pub(crate) async fn folders_are_created_listed_and_removed(port: &dyn Files) {
        let at = scope("acme");
        for name in ["z", "d/2", "d/1", "d/e/x", "é"] {
            port.write(&at, path(name), b"x".to_vec(), false).await.unwrap();
        }
        let listed = port.list(&at, None, None).await.unwrap();
        let expected = [("d", Kind::Folder), ("z", Kind::File), ("é", Kind::File)];
        assert_eq!(listed.entries, expected.map(|(name, kind)| (name.to_owned(), kind)));
        let listed = port.list(&at, Some(path("d")), Some("1".into())).await.unwrap();
        let expected = [("2", Kind::File), ("e", Kind::Folder)];
        assert_eq!(listed.entries, expected.map(|(name, kind)| (name.to_owned(), kind)));
        assert_eq!(port.list(&at, Some(path("no")), None).await.unwrap_err().code, Code::FileNotFound);
        assert_eq!(port.delete(&at, path("d/e")).await.unwrap_err().code, Code::InvalidArgument);
        assert!(port.delete(&at, path("d/e/x")).await.unwrap());
        assert!(port.delete(&at, path("d/e")).await.unwrap());
    }

    pub(crate) async fn links_are_not_followed(port: &dyn Files) {
        use std::os::unix::fs::symlink;
        let at = scope("acme");
        port.write(&at, path("d/inside"), b"inside".to_vec(), false).await.unwrap();
        port.write(&scope("other"), path("secret"), b"secret".to_vec(), false).await.unwrap();
        let folder = port.root().join("acme");
        symlink("../other/secret", folder.join("link")).unwrap();
        symlink("../other", folder.join("through")).unwrap();
        symlink("/etc", folder.join("absolute")).unwrap();
        symlink("d/inside", folder.join("harmless")).unwrap();
        symlink("../other/new", folder.join("dangling")).unwrap();
        for outside in ["link", "through/secret", "absolute/passwd", "harmless", "dangling"] {
            let outside = || path(outside);
            for refused in [
                port.read(&at, outside()).await.map(|_| ()),
                port.write(&at, outside(), b"evil".to_vec(), false).await.map(|_| ()),
                port.delete(&at, outside()).await.map(|_| ()),
                port.stat(&at, outside()).await.map(|_| ()),
            ] {
                assert_eq!(refused.unwrap_err().code, Code::PathOutsideSandbox, "{:?}", outside());
            }
        }
        let refused = port.list(&at, Some(path("through")), None).await.unwrap_err();
        assert_eq!(refused.code, Code::PathOutsideSandbox);
        let refused = port.write(&at, path("through/new/file"), b"evil".to_vec(), false).await.unwrap_err();
        assert_eq!(refused.code, Code::PathOutsideSandbox);
        assert_eq!(port.read(&scope("other"), path("secret")).await.unwrap(), b"secret");
        assert_eq!(port.list(&scope("other"), None, None).await.unwrap().entries.len(), 1);
    }

    pub(crate) async fn only_files_are_overwritten(port: &dyn Files) {
        let at = scope("acme");
        port.write(&at, path("d/f"), b"x".to_vec(), false).await.unwrap();
        for refused in [
            port.write(&at, path("d"), b"x".to_vec(), false).await.map(|_| ()),
            port.read(&at, path("d")).await.map(|_| ()),
        ] {
            assert_eq!(refused.unwrap_err().code, Code::InvalidArgument);
        }
        let below = port.write(&at, path("d/f/g"), b"x".to_vec(), false).await.unwrap_err();
        assert_eq!(below.code, Code::FileNotFound);
        assert_eq!(port.stat(&at, path("d/f/g")).await.unwrap(), None);
        assert_eq!(port.read(&at, path("d/f")).await.unwrap(), b"x");
    }

    pub(crate) async fn effects_are_applied_once(port: &dyn Files) {
        let by = |effect: &str| scope("acme").with_effect(effect);
        for _ in 0..2 {
            let result = port.write(&by("new"), path("a"), b"first".to_vec(), true).await.unwrap();
            assert_eq!(result, Written::Done, "the repeated call is the same write");
        }
        port.write(&by("over"), path("a"), b"over".to_vec(), false).await.unwrap();
        port.write(&scope("acme"), path("a"), b"later".to_vec(), false).await.unwrap();
        port.write(&by("over"), path("a"), b"over".to_vec(), false).await.unwrap();
        assert_eq!(port.read(&scope("acme"), path("a")).await.unwrap(), b"later");
        for _ in 0..2 {
            assert!(port.delete(&by("gone"), path("a")).await.unwrap());
        }
        // A failed call can be repeated.
        port.write(&scope("acme"), path("d/f"), b"x".to_vec(), false).await.unwrap();
        assert!(port.write(&by("again"), path("d"), b"x".to_vec(), false).await.is_err());
        port.delete(&scope("acme"), path("d/f")).await.unwrap();
        port.delete(&scope("acme"), path("d")).await.unwrap();
        port.write(&by("again"), path("d"), b"x".to_vec(), false).await.unwrap();
        assert_eq!(port.read(&scope("acme"), path("d")).await.unwrap(), b"x");
    }
}
