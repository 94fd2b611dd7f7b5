//! The files of a folder of images, in the order of their names.

use std::path::{Path, PathBuf};

use crate::suggestion::{Suggestion, listed as listed_names};
use crate::{Error, OpenOptions, Schema};

/// How the names of files end that are read, in small letters.
const ENDINGS: [&str; 3] = ["jpg", "jpeg", "png"];

/// The images of a folder.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) files: Vec<PathBuf>,
    /// The class of each; nothing where no targets are wanted.
    pub(super) classes: Vec<u32>,
    /// The names of the classes.
    pub(super) names: Vec<String>,
    /// What was not taken, in words.
    pub(super) remark: Option<String>,
}

/// What lies in one folder.
#[derive(Default)]
struct Content {
    images: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    others: Vec<PathBuf>,
}

impl Content {
    /// Names that begin with `_` or `.` are those of other tools.
    fn of(folder: &Path, options: &OpenOptions) -> Result<Self, Error> {
        let mut content = Self::default();
        for entry in folder.read_dir().map_err(Error::file("read", folder))? {
            let entry = entry.map_err(Error::file("read", folder))?;
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with(['_', '.']) {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                options.expect_inside(&path)?;
            }
            if path.is_dir() {
                content.folders.push(path);
            } else if is_image(&path) {
                content.images.push(path);
            } else {
                content.others.push(path);
            }
        }
        // In any order of the system's; names decide.
        content.images.sort();
        content.folders.sort();
        Ok(content)
    }
}

fn is_image(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

impl Listing {
    /// With targets, the images of each sub-folder are of one class; without, all images there are, or one file.
    pub(super) fn of(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        if !options.targets && path.is_file() {
            return Ok(Self { files: vec![path.to_owned()], ..Self::default() });
        }
        let Content { images, folders, mut others } = Content::of(path, options)?;
        let mut listing = Self::default();
        let all = folders.into_iter().map(|folder| Ok((Content::of(&folder, options)?, folder)));
        let all = all.collect::<Result<Vec<_>, Error>>()?;
        // A folder without images is no class.
        let (folders, empty): (Vec<_>, Vec<_>) = all.into_iter().partition(|(inside, _)| !inside.images.is_empty());
        for (inside, folder) in empty {
            others.extend(inside.folders);
            others.extend(inside.others);
            others.push(folder);
        }
        match options.targets {
            true => {
                others.extend(images.iter().cloned());
                let names = folders.iter().map(|(_, folder)| name(folder)).collect();
                let trained = options.schema.as_ref().and_then(Schema::class_names);
                listing.names = trained.map_or(names, <[String]>::to_vec);
            }
            false => listing.files.clone_from(&images),
        }
        for (inside, folder) in folders {
            let class = if options.targets { class_of(&name(&folder), &listing.names)? } else { 0 };
            if options.targets {
                listing.classes.extend(inside.images.iter().map(|_| class));
            }
            listing.files.extend(inside.images);
            others.extend(inside.folders);
            others.extend(inside.others);
        }
        if listing.files.is_empty() && options.targets {
            let expected = "a folder with a sub-folder of images for each class".to_owned();
            let found = format!("`{}` with {} images, and none in a sub-folder", path.display(), images.len());
            return Err(Error::BadSetting { setting: "images:", expected, found });
        }
        if listing.files.is_empty() {
            let what = "files whose names end with `.jpg`, `.jpeg` or `.png`";
            return Err(Error::NothingLeft { path: path.to_owned(), what });
        }
        others.sort();
        listing.remark = (!others.is_empty()).then(|| {
            let names: Vec<String> = others.iter().map(|other| below(path, other)).collect();
            let where_to = if options.targets { " in the folder of a class" } else { "" };
            format!(
                "what is no `.jpg`, `.jpeg` or `.png`{where_to} is left out of `{}`: {}",
                path.display(),
                listed_names(names.iter().map(String::as_str))
            )
        });
        Ok(listing)
    }
}

/// All images of a folder, whatever they are of.
pub(crate) fn listed(path: &Path, options: &OpenOptions) -> Result<Vec<PathBuf>, Error> {
    Ok(Listing::of(path, &OpenOptions { targets: false, ..options.clone() })?.files)
}

/// How a file is called from its folder on.
pub(super) fn below(folder: &Path, file: &Path) -> String {
    file.strip_prefix(folder).unwrap_or(file).display().to_string()
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn class_of(found: &str, names: &[String]) -> Result<u32, Error> {
    let at = names.iter().position(|name| name == found);
    at.map(|at| at as u32).ok_or_else(|| Error::UnknownName {
        what: "class, the name of a sub-folder,",
        found: found.to_owned(),
        expected: listed_names(names.iter().map(String::as_str)),
        suggestion: Suggestion::nearest(found, names.iter().map(String::as_str)),
    })
}
