//! Where suites lie, how their sources get there, and the two libraries that they run over.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    install,
    shell::{self, Cmd},
};

/// What a command may take.
const LIMIT_S: u32 = 900;

/// What a run of a suite may take.
const RUN_LIMIT_S: u32 = 300;

/// What a suite came to: a line about what was verified, or why it failed.
pub(super) type Verified = Result<String, String>;

/// A library of MPI, installed.
pub(crate) struct Library {
    pub(crate) name: &'static str,
    /// Compilers and launcher.
    pub(crate) bin: PathBuf,
    /// The library for programs of MPICH's ABI.
    pub(crate) mpich_abi: PathBuf,
    /// The library for programs of the standard's ABI.
    pub(crate) abi: PathBuf,
}

impl Library {
    /// Where the library lies that its compilers link.
    pub(crate) fn folder(&self) -> String {
        let folder = self.abi.parent().expect("a file in a folder");
        folder.display().to_string()
    }

    /// One of its programs.
    pub(crate) fn program(&self, name: &str) -> String {
        self.bin.join(name).display().to_string()
    }
}

/// The folder of all suites.
pub(crate) struct Place {
    root: PathBuf,
    prefix: PathBuf,
}

impl Place {
    /// Installs our libraries, built with this profile.
    pub(crate) fn new(profile: &str) -> Result<Self, String> {
        let root = shell::target_dir().join("suites");
        let prefix = root.join(format!("installed-{profile}"));
        install::install(&prefix, profile)?;
        Ok(Self { root, prefix })
    }

    pub(crate) fn ours(&self) -> Library {
        Library {
            name: "hikyaku",
            bin: self.prefix.join("bin"),
            mpich_abi: self.prefix.join("lib/libmpi.so.12"),
            abi: self.prefix.join("lib/libmpi_abi.so.1"),
        }
    }

    /// A folder that stays.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.root.join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// MPICH's wheel.
    pub(crate) fn control(&self) -> Result<Library, String> {
        let folder = self.environment("control", &["mpich==5.0.2"], &[])?;
        Ok(Library {
            name: "control (MPICH 5.0.2)",
            bin: folder.join("bin"),
            mpich_abi: folder.join("lib/libmpi.so.12"),
            abi: folder.join("lib/libmpi_abi.so.1"),
        })
    }

    /// An environment of Python with these packages, which `pip` installs with these variables.
    pub(crate) fn environment(
        &self,
        name: &str,
        packages: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<PathBuf, String> {
        let folder = self.root.join(name);
        let path = folder.display().to_string();
        let done = folder.join("packages");
        let wanted = packages.join(" ");
        if fs::read_to_string(&done).is_ok_and(|kept| kept == wanted) {
            return Ok(folder);
        }
        Cmd::parse("python3 -m venv").args([&path]).limit_s(LIMIT_S).run()?;
        let pip = Cmd::new(&format!("{path}/bin/pip")).args(["install", "--quiet", "--disable-pip-version-check"]);
        let pip = pip.args(packages).limit_s(LIMIT_S);
        let set = |pip: Cmd, (name, value): &(&str, &str)| pip.env(name, value);
        variables.iter().fold(pip, set).run()?;
        fs::write(&done, wanted).map_err(|error| format!("{}: {error}", done.display()))?;
        Ok(folder)
    }

    /// A tool of the machine, or else of an environment that gets it from PyPI.
    pub(super) fn tool(&self, name: &str) -> Result<String, String> {
        match shell::which(name) {
            Some(path) => Ok(path.display().to_string()),
            None => {
                let folder = self.environment("tools", &["cmake", "meson", "ninja"], &[])?;
                Ok(folder.join("bin").join(name).display().to_string())
            }
        }
    }

    /// The original sources of a package of Debian, unpacked; `folder` is what its archive unpacks to.
    pub(super) fn debian(&self, package: &str, folder: &str) -> Result<(), String> {
        let sources = self.root.join("sources");
        if sources.join(folder).exists() {
            return Ok(());
        }
        let apt = self.apt()?;
        fs::create_dir_all(&sources).map_err(|error| format!("{}: {error}", sources.display()))?;
        apt("source", &sources)
            .args(["--tar-only", "--download-only", package])
            .limit_s(LIMIT_S)
            .run()?;
        let files = fs::read_dir(&sources).map_err(|error| error.to_string())?;
        let archive = files.filter_map(Result::ok).map(|file| file.path()).find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&format!("{package}_")) && name.contains(".orig.tar")
        });
        let archive = archive.ok_or_else(|| format!("no archive of {package}"))?;
        self.within(&sources, "tar", &["xf", &archive.display().to_string()])
            .run()
    }

    /// The contents of packages of Debian, without installing them; gives the folder that stands for `/`.
    pub(super) fn packages(&self, packages: &[&str]) -> Result<PathBuf, String> {
        let folder = self.root.join(format!("root-{}", packages[0]));
        if folder.exists() {
            return Ok(folder);
        }
        let archives = self.root.join("packages").join(packages[0]);
        fs::create_dir_all(&archives).map_err(|error| format!("{}: {error}", archives.display()))?;
        self.within(&archives, "apt-get", &["download"])
            .args(packages)
            .limit_s(LIMIT_S)
            .run()?;
        for file in fs::read_dir(&archives)
            .map_err(|error| error.to_string())?
            .filter_map(Result::ok)
        {
            let paths = [file.path(), folder.clone()].map(|path| path.display().to_string());
            Cmd::parse("dpkg -x").args(paths).run()?;
        }
        Ok(folder)
    }

    /// `apt-get` with lists of sources of its own, so that nothing of the machine's changes.
    fn apt(&self) -> Result<impl Fn(&str, &Path) -> Cmd, String> {
        if shell::which("apt-get").is_none() {
            return Err("no apt-get here".to_owned());
        }
        let folder = self.root.join("apt");
        let path = folder.display().to_string();
        let options = [
            format!("Dir::Etc::sourcelist={path}/sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            format!("Dir::State::lists={path}/lists"),
            format!("Dir::Cache={path}/cache"),
        ];
        let apt = move |chore: &str, at: &Path| {
            let options = options.iter().flat_map(|option| ["-o", option.as_str()]);
            let words: Vec<&str> = ["-q"].into_iter().chain(options).chain([chore]).collect();
            self.within(at, "apt-get", &words)
        };
        if !folder.join("lists").exists() {
            let make = |name: &str| fs::create_dir_all(folder.join(name));
            make("cache/archives/partial").map_err(|error| format!("{path}: {error}"))?;
            let list = "deb-src http://deb.debian.org/debian bookworm main\n";
            fs::write(folder.join("sources.list"), list).map_err(|error| format!("{path}: {error}"))?;
            make("lists/partial").map_err(|error| format!("{path}: {error}"))?;
            let updated = apt("update", &self.root).limit_s(LIMIT_S).run();
            if updated.is_err() {
                // The next run shall try it again.
                let _ = fs::remove_dir_all(folder.join("lists"));
            }
            updated?;
        }
        Ok(apt)
    }

    /// The sources of a crate, as crates.io has it.
    pub(super) fn crate_source(&self, name: &str, version: &str) -> Result<(), String> {
        let to = self.root.join("sources").join(format!("{name}-{version}"));
        if to.exists() {
            return Ok(());
        }
        // What depends on it, so that cargo fetches it.
        let user = self.folder(&format!("user-of-{name}"))?;
        fs::create_dir_all(user.join("src")).map_err(|error| format!("{}: {error}", user.display()))?;
        let manifest = format!(
            "[package]\nname = \"user\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[dependencies]\n{name} = \
             \"={version}\"\n\n[workspace]\n"
        );
        for (file, text) in [("Cargo.toml", manifest.as_str()), ("src/lib.rs", "")] {
            fs::write(user.join(file), text).map_err(|error| format!("{file}: {error}"))?;
        }
        self.within(&user, "cargo", &["vendor", "--quiet"])
            .limit_s(LIMIT_S)
            .output()
            .map_err(|error| error.to_string())?;
        let from = user.join("vendor").join(name).display().to_string();
        fs::create_dir_all(self.root.join("sources")).map_err(|error| error.to_string())?;
        Cmd::parse("cp -r").args([&from, &to.display().to_string()]).run()
    }

    /// A fresh copy of sources, in which a suite is built over a library.
    pub(super) fn copy(&self, folder: &str, library: &Library) -> Result<PathBuf, String> {
        let to = self.work(folder, library)?;
        self.copy_to(folder, &to)?;
        Ok(to)
    }

    /// Copies sources to a folder.
    pub(super) fn copy_to(&self, folder: &str, to: &Path) -> Result<(), String> {
        fs::create_dir_all(to).map_err(|error| format!("{}: {error}", to.display()))?;
        let from = self.root.join("sources").join(folder).join(".").display().to_string();
        Cmd::parse("cp -r").args([&from, &to.display().to_string()]).run()
    }

    /// An empty folder for a suite over a library.
    pub(super) fn work(&self, name: &str, library: &Library) -> Result<PathBuf, String> {
        let short = library.name.split_whitespace().next().unwrap_or_default();
        let to = self.root.join("work").join(format!("{name}-{short}"));
        let _ = fs::remove_dir_all(&to);
        fs::create_dir_all(&to).map_err(|error| format!("{}: {error}", to.display()))?;
        Ok(to)
    }

    /// A command that runs in `folder`.
    pub(super) fn within(&self, folder: &Path, program: &str, args: &[&str]) -> Cmd {
        let folder = folder.display().to_string();
        Cmd::new("env").args(["-C", &folder, program]).args(args)
    }
}

/// Runs a program on so many ranks in a folder.
pub(super) fn ranks(place: &Place, library: &Library, folder: &Path, ranks: u32, program: &[&str]) -> Verified {
    let ranks = ranks.to_string();
    let words: Vec<&str> = ["-n", &ranks].into_iter().chain(program.iter().copied()).collect();
    text(
        &place
            .within(folder, &library.program("mpiexec"), &words)
            .limit_s(RUN_LIMIT_S),
    )
}

/// Runs, with both outputs in the result, which are the error's text if it fails.
pub(super) fn text(command: &Cmd) -> Result<String, String> {
    println!("$ {command}");
    let output = command.output().map_err(|error| format!("{error}: {command}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let end = lines[lines.len().saturating_sub(15)..].join("\n");
    Err(format!("{}: {command}\n{end}", output.status))
}
